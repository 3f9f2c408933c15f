"""The model families that Wherefrom brings, as rows of data; other packages bring theirs by `wherefrom.register_family`
or the entry point `wherefrom.families`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from wherefrom.core.family import Family, StackPaths
from wherefrom.registry import all_families, register_family

__all__ = ["FAMILIES", "TWO_STACKS", "Family", "StackPaths", "family_of", "is_known", "known_types", "stacks_of"]

# Layouts that many families share; the rows below say what is different.
_BERT = Family(
    (
        *("bert", "roberta", "xlm-roberta", "camembert", "electra", "deberta", "deberta-v2"),
        *("ernie", "data2vec-text", "roformer", "rembert", "luke"),
    ),
    blocks="encoder.layer.*",
    attention="attention.self",
    attention_out="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    mlp=("intermediate", "output.dense"),
    mlp_norm="output.LayerNorm",
    order="post",
    reads="first",
)
_LLAMA = Family(
    (
        *("llama", "mistral", "qwen2", "qwen3"),
        *("gemma", "olmo", "phi3", "starcoder2", "smollm3", "glm"),
        "ministral3",
    ),
    blocks="layers.*",
    attention="self_attn",
    attention_out="self_attn.o_proj",
    attention_norm="input_layernorm",
    mlp=("mlp",),
    mlp_norm="post_attention_layernorm",
    order="pre",
    reads="last",
)
_GPT2 = Family(
    ("gpt2",),
    blocks="h.*",
    attention="attn",
    attention_out="attn.c_proj",
    attention_norm="ln_1",
    mlp=("mlp",),
    mlp_norm="ln_2",
    order="pre",
    reads="last",
)
_BART = Family(
    ("bart",),
    blocks="encoder.layers.*",
    attention="self_attn",
    attention_out="self_attn.out_proj",
    attention_norm="self_attn_layer_norm",
    mlp=("fc1", "activation_fn", "fc2"),
    mlp_norm="final_layer_norm",
    order="post",
    reads="every",
)
_BERT_PRE = Family(
    ("esm",),
    blocks="encoder.layer.*",
    attention="attention.self",
    attention_out="attention.output.dense",
    attention_norm="attention.LayerNorm",
    mlp=("intermediate", "output.dense"),
    mlp_norm="LayerNorm",
    order="pre",
    reads="first",
)

FAMILIES: tuple[Family, ...] = (
    _BERT,
    Family(
        ("albert",),
        blocks="encoder.albert_layer_groups.*.albert_layers.*",
        attention="attention",
        attention_out="attention.dense",
        attention_norm="attention.LayerNorm",
        mlp=("ffn", "activation", "ffn_output"),
        mlp_norm="full_layer_layer_norm",
        order="post",
        reads="first",
    ),
    Family(
        ("distilbert",),
        blocks="transformer.layer.*",
        attention="attention",
        attention_out="attention.out_lin",
        attention_norm="sa_layer_norm",
        mlp=("ffn",),
        mlp_norm="output_layer_norm",
        order="post",
        reads="first",
    ),
    replace(
        _LLAMA,
        model_types=("nomic_bert", "gte", "jina_embeddings_v3"),
        attention_norm="post_attention_layernorm",
        mlp_norm="post_mlp_layernorm",
        order="post",
        reads="first",
    ),
    replace(
        _BERT,
        model_types=("mpnet",),
        attention="attention.attn",
        attention_out="attention.attn.o",
        attention_norm="attention.LayerNorm",
    ),
    Family(
        ("modernbert",),
        blocks="layers.*",
        attention="attn",
        attention_out="attn.Wo",
        attention_norm="attn_norm",
        mlp=("mlp",),
        mlp_norm="mlp_norm",
        order="pre",
        reads="first",
        reads_option="classifier_pooling",
    ),
    _GPT2,
    _LLAMA,
    replace(
        _LLAMA,
        model_types=("gemma2", "gemma3_text"),
        mlp_norm="pre_feedforward_layernorm",
        order="sandwich",
        attention_after="post_attention_layernorm",
        mlp_after="post_feedforward_layernorm",
    ),
    replace(
        _LLAMA,
        model_types=("gpt_neox",),
        attention="attention",
        attention_out="attention.dense",
        parallel_option="use_parallel_residual",
    ),
    Family(
        ("t5", "mt5"),
        blocks="encoder.block.*",
        attention="layer.0.SelfAttention",
        attention_out="layer.0.SelfAttention.o",
        attention_norm="layer.0.layer_norm",
        mlp=("layer.1.DenseReluDense",),
        mlp_norm="layer.1.layer_norm",
        order="pre",
        reads="every",
    ),
    _BART,
    replace(_BERT, model_types=("big_bird",), only_with=(("attention_type", "original_full"),)),
    replace(_BERT_PRE, model_types=("xlm-roberta-xl",), attention_norm="attention.self_attn_layer_norm"),
    replace(
        _BERT_PRE,
        model_types=("roberta-prelayernorm",),
        mlp=("intermediate.dense", "intermediate.intermediate_act_fn", "output.dense"),
        mlp_norm="intermediate.LayerNorm",
    ),
    _BERT_PRE,
    replace(_BERT_PRE, model_types=("megatron-bert",), attention_norm="attention.ln", mlp_norm="ln"),
    replace(_LLAMA, model_types=("eurobert",), reads="first", reads_option="classifier_pooling"),
    replace(
        _BART,
        model_types=("opt",),
        blocks="decoder.layers.*",
        order="pre",
        reads="last",
        pre_option="do_layer_norm_before",
    ),
    replace(_GPT2, model_types=("gpt_neo",), attention="attn.attention", attention_out="attn.attention.out_proj"),
    replace(_GPT2, model_types=("gptj",), attention_out="attn.out_proj", mlp_norm="ln_1", order="parallel"),
    replace(
        _LLAMA, model_types=("phi",), attention_out="self_attn.dense", mlp_norm="input_layernorm", order="parallel"
    ),
    replace(_LLAMA, model_types=("cohere", "cohere2"), mlp_norm="input_layernorm", order="parallel"),
    replace(
        _LLAMA,
        model_types=("stablelm",),
        mlp_norm="post_attention_layernorm|input_layernorm",
        parallel_option="use_parallel_residual",
    ),
    Family(
        ("falcon",),
        blocks="h.*",
        attention="self_attention",
        attention_out="self_attention.dense",
        attention_norm="ln_attn|input_layernorm",
        mlp=("mlp",),
        mlp_norm="ln_mlp|post_attention_layernorm|input_layernorm",
        order="pre",
        reads="last",
        parallel_option="parallel_attn",
    ),
    replace(_LLAMA, model_types=("granite",), scale_option="residual_multiplier"),
    replace(
        _LLAMA,
        model_types=("olmo2", "olmo3"),
        attention_norm=None,
        mlp_norm=None,
        order="sandwich",
        attention_after="post_attention_layernorm",
        mlp_after="post_feedforward_layernorm",
    ),
    replace(
        _LLAMA,
        model_types=("glm4",),
        order="sandwich",
        attention_after="post_self_attn_layernorm",
        mlp_after="post_mlp_layernorm",
    ),
    Family(
        ("bloom",),
        blocks="h.*",
        attention="self_attention",
        attention_out="self_attention.dense",
        attention_norm="input_layernorm",
        mlp=("mlp.dense_h_to_4h", "mlp.gelu_impl", "mlp.dense_4h_to_h"),
        mlp_norm="post_attention_layernorm",
        order="pre",
        reads="last",
        only_with=(("apply_residual_connection_post_layernorm", False),),
    ),
    Family(
        ("mpt",),
        blocks="blocks.*",
        attention="attn",
        attention_out="attn.out_proj",
        attention_norm="norm_1",
        mlp=("ffn.up_proj", "ffn.act", "ffn.down_proj"),
        mlp_norm="norm_2",
        order="pre",
        reads="last",
    ),
    replace(_BART, model_types=("mbart",), order="pre"),
    replace(_LLAMA, model_types=("mixtral", "qwen2_moe", "qwen3_moe"), router="mlp.gate"),
    replace(_LLAMA, model_types=("gpt_oss",), router="mlp.router"),
    replace(
        _BERT,
        model_types=("mobilebert",),
        only_with=(("use_bottleneck", True),),
        enter="bottleneck.input",
        between=("ffn.*",),
        tail=("&output.bottleneck",),
    ),
    replace(
        _BERT,
        model_types=("xmod",),
        only_with=(
            ("pre_norm", False),
            ("adapter_layer_norm", False),
            ("adapter_reuse_layer_norm", True),
            ("ln_before_adapter", True),
        ),
        tail=("+output.adapter_modules.$default_language", "output.LayerNorm"),
    ),
    Family(
        ("xlm", "flaubert"),
        blocks="attentions.*",
        attention=".",
        attention_out="out_lin",
        attention_norm="^layer_norm1.#",
        mlp=("^ffns.#",),
        mlp_norm="^layer_norm2.#",
        order="post",
        reads="first",
        only_with=(("pre_norm", False),),
        output="^layer_norm2.#",
    ),
    Family(
        ("xlnet",),
        blocks="layer.*",
        attention="rel_attn",
        attention_out="rel_attn.o",
        attention_norm="rel_attn.layer_norm",
        mlp=("ff.layer_1", "ff.activation_function", "ff.layer_2"),
        mlp_norm="ff.layer_norm",
        order="post",
        reads="last",
        tokens_first=True,
    ),
    replace(
        _BERT,
        model_types=("longformer",),
        unseen="its attention is over a window around each token and a few global tokens, computed in overlapping"
        " chunks, so that no table of every token's attention to every other exists.",
    ),
    replace(
        _BERT,
        model_types=("nystromformer",),
        unseen="it adds a convolution over neighbouring tokens to its attention, which itself may go by way of"
        " landmarks, the means of tokens, and is then no softmax over tokens.",
    ),
    replace(
        _BERT,
        model_types=("convbert",),
        unseen="half of its heads are convolutions over neighbouring tokens, so that attention is only half of what"
        " moves between tokens.",
    ),
    Family(
        ("funnel",),
        blocks="encoder.blocks.*.*",
        attention="attention",
        attention_out="attention.post_proj",
        attention_norm="attention.layer_norm",
        mlp=("ffn.linear_1", "ffn.activation_function", "ffn.linear_2"),
        mlp_norm="ffn.layer_norm",
        order="post",
        reads="first",
        unseen="it pools neighbouring tokens between its blocks, so that most of its attention is between groups of"
        " tokens and not between tokens.",
    ),
)


# Where the attentions are of models with an encoder and a decoder that generate text.
TWO_STACKS: tuple[StackPaths, ...] = (
    StackPaths(
        ("t5", "mt5", "umt5"),
        encoder="encoder.block.*.layer.0.SelfAttention",
        decoder="decoder.block.*.layer.0.SelfAttention",
        cross="decoder.block.*.layer.1.EncDecAttention",
    ),
    StackPaths(
        ("bart", "mbart", "marian", "pegasus", "m2m_100", "blenderbot", "blenderbot-small"),
        encoder="encoder.layers.*.self_attn",
        decoder="decoder.layers.*.self_attn",
        cross="decoder.layers.*.encoder_attn",
    ),
)


for _family in FAMILIES:
    register_family(_family)


def known_types() -> list[str]:
    """The values of `config.model_type` that a row is known for."""
    return sorted(all_families())


def family_of(model_type: str) -> Family | None:
    """The row for models of this type; None where there is none."""
    return all_families().get(model_type)


def is_known(network: Any) -> bool:
    """Whether there is a row for a model's type, of one stack of layers or of two."""
    model_type = getattr(network.config, "model_type", "")
    return family_of(model_type) is not None or stacks_of(model_type) is not None


def stacks_of(model_type: str) -> StackPaths | None:
    """Where the attentions of an encoder and a decoder of this type are; None where they are unknown."""
    return next((row for row in TWO_STACKS if model_type in row.model_types), None)
