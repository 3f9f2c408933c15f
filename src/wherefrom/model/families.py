"""The model families that Wherefrom brings, as rows of data; other packages bring theirs by `wherefrom.register_family`
or the entry point `wherefrom.families`.
"""

from __future__ import annotations

from wherefrom.core.family import Family
from wherefrom.registry import all_families, register_family

__all__ = ["FAMILIES", "Family", "family_of", "known_types"]

FAMILIES: tuple[Family, ...] = (
    Family(
        ("bert", "roberta", "xlm-roberta", "camembert", "electra", "deberta", "deberta-v2"),
        blocks="encoder.layer.*",
        attention="attention.self",
        attention_out="attention.output.dense",
        attention_norm="attention.output.LayerNorm",
        mlp=("intermediate", "output.dense"),
        mlp_norm="output.LayerNorm",
        order="post",
        reads="first",
    ),
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
    Family(
        ("mpnet",),
        blocks="encoder.layer.*",
        attention="attention.attn",
        attention_out="attention.attn.o",
        attention_norm="attention.LayerNorm",
        mlp=("intermediate", "output.dense"),
        mlp_norm="output.LayerNorm",
        order="post",
        reads="first",
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
    Family(
        ("gpt2",),
        blocks="h.*",
        attention="attn",
        attention_out="attn.c_proj",
        attention_norm="ln_1",
        mlp=("mlp",),
        mlp_norm="ln_2",
        order="pre",
        reads="last",
    ),
    Family(
        ("llama", "mistral", "qwen2", "qwen3"),
        blocks="layers.*",
        attention="self_attn",
        attention_out="self_attn.o_proj",
        attention_norm="input_layernorm",
        mlp=("mlp",),
        mlp_norm="post_attention_layernorm",
        order="pre",
        reads="last",
    ),
    Family(
        ("gemma2",),
        blocks="layers.*",
        attention="self_attn",
        attention_out="self_attn.o_proj",
        attention_norm="input_layernorm",
        mlp=("mlp",),
        mlp_norm="pre_feedforward_layernorm",
        order="sandwich",
        reads="last",
        attention_after="post_attention_layernorm",
        mlp_after="post_feedforward_layernorm",
    ),
    Family(
        ("gpt_neox",),
        blocks="layers.*",
        attention="attention",
        attention_out="attention.dense",
        attention_norm="input_layernorm",
        mlp=("mlp",),
        mlp_norm="post_attention_layernorm",
        order="pre",
        reads="last",
        parallel_option="use_parallel_residual",
    ),
    Family(
        ("t5",),
        blocks="encoder.block.*",
        attention="layer.0.SelfAttention",
        attention_out="layer.0.SelfAttention.o",
        attention_norm="layer.0.layer_norm",
        mlp=("layer.1.DenseReluDense",),
        mlp_norm="layer.1.layer_norm",
        order="pre",
        reads="every",
    ),
    Family(
        ("bart",),
        blocks="encoder.layers.*",
        attention="self_attn",
        attention_out="self_attn.out_proj",
        attention_norm="self_attn_layer_norm",
        mlp=("fc1", "activation_fn", "fc2"),
        mlp_norm="final_layer_norm",
        order="post",
        reads="every",
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
