"""The model families whose blocks and attention Wherefrom knows: data, no code per model.

A row names where things are, as paths from the backbone (`model.base_model`), and how a block is put together:

- post: h = norm1(x + attention(x)); y = norm2(h + mlp(h))
- pre: h = x + attention(norm1(x)); y = h + mlp(norm2(h))
- parallel: y = x + attention(norm1(x)) + mlp(norm2(x))
- sandwich: h = x + after1(attention(norm1(x))); y = h + after2(mlp(norm2(h)))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Order = Literal["post", "pre", "parallel", "sandwich"]
DecisionPosition = Literal["first", "last", "every"]


@dataclass(frozen=True)
class Family:
    model_types: tuple[str, ...]
    blocks: str  # "*" stands for every child; a block that is used for several layers is listed once
    # this and what follows are paths from the block
    attention: str  # the module in which the attention probabilities are computed
    attention_out: str
    attention_norm: str
    mlp: tuple[str, ...]
    mlp_norm: str
    order: Order
    # the position a classification head reads; "every" where it reads all, or where another stack does
    reads: DecisionPosition
    reads_option: str | None = None  # a setting of the model's config that says "cls" or "mean" instead
    parallel_option: str | None = None  # a setting of the model's config that makes a pre block parallel
    attention_after: str | None = None  # a sandwich's norms after attention and mlp
    mlp_after: str | None = None


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


def known_types() -> list[str]:
    return sorted(name for family in FAMILIES for name in family.model_types)


def family_of(model_type: str) -> Family | None:
    return next((family for family in FAMILIES if model_type in family.model_types), None)
