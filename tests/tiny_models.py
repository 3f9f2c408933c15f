"""One small random model of every family, with a tokenizer made here: no download, and lively enough weights to tell
mistakes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers import models as pieces
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerFast

from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel

CHAT_TEMPLATE = (
    "{% for m in messages %}the {{ m.role }} is : {{ m.content }} . {% endfor %}"
    "{% if add_generation_prompt %}the film is{% endif %}"
)
WORDS = [
    "a",
    "an",
    "the",
    "film",
    "movie",
    "plot",
    "acting",
    "was",
    "is",
    "not",
    "bad",
    "good",
    "fine",
    "great",
    "dull",
    "and",
    "but",
    "it",
    ",",
    ".",
    "!",
    "?",
    "never",
    "very",
]
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
GROUPED = SIZES | {"num_key_value_heads": 2}

# model type -> its config, the id of its padding token, the kind of text ends it was trained with ("two" is "both" with
# two separators between the texts of a pair)
CONFIGS: dict[str, tuple[dict[str, Any], int, str]] = {
    "bert": (SIZES, 0, "both"),
    "roberta": (SIZES, 1, "both"),
    "xlm-roberta": (SIZES, 1, "both"),
    "camembert": (SIZES, 1, "both"),
    "electra": (SIZES | {"embedding_size": 16}, 0, "both"),
    "albert": (SIZES | {"embedding_size": 16}, 0, "both"),
    "distilbert": (
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64},
        0,
        "both",
    ),
    "deberta": (
        SIZES | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 32},
        0,
        "both",
    ),
    "deberta-v2": (
        SIZES
        | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 16}
        | {"share_att_key": True, "norm_rel_ebd": "layer_norm"},
        0,
        "both",
    ),
    "mpnet": (SIZES, 1, "both"),
    "modernbert": (SIZES | {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}, 0, "both"),
    "gpt2": (
        {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2},
        0,
        "none",
    ),
    "llama": (GROUPED, 0, "none"),
    "mistral": (GROUPED, 0, "none"),
    "qwen2": (GROUPED, 0, "none"),
    "qwen3": (GROUPED | {"head_dim": 8}, 0, "none"),
    "gemma2": (GROUPED | {"head_dim": 8}, 0, "none"),
    "gpt_neox": (SIZES, 0, "none"),
    "t5": (
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 3,
            "num_heads": 4,
            "decoder_start_token_id": 0,
            "eos_token_id": 2,
        },
        0,
        "end",
    ),
    "bart": (
        {
            "d_model": 32,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
        }
        | {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "eos_token_id": 2},
        1,
        "both",
    ),
}
# The families above go through every law on its own; those below, which differ from them in names, settings or one
# detail of their blocks, through one cheap test of everything (tests/methods/test_families.py), and are smaller.
FAMILIES = list(CONFIGS)
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
}
SMALL_ENDS = {"bos_token_id": 1, "eos_token_id": 2}
SMALL_GROUPED = SMALL | SMALL_ENDS | {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}
# torch's grouped matrix product, which transformers computes experts with by default, knows no double precision.
SMALL_EXPERTS = SMALL_GROUPED | {"num_experts_per_tok": 2, "experts_implementation": "batched_mm"}
CONFIGS |= {
    "ernie": (SMALL, 0, "both"),
    "data2vec-text": (SMALL, 1, "both"),
    "roformer": (SMALL | {"embedding_size": 12}, 0, "both"),
    "rembert": (SMALL | SMALL_ENDS | {"input_embedding_size": 12, "output_embedding_size": 12}, 0, "both"),
    "luke": (SMALL | {"entity_vocab_size": 5, "entity_emb_size": 8}, 1, "both"),
    "big_bird": (SMALL | {"attention_type": "original_full"}, 0, "both"),
    "xlm-roberta-xl": (SMALL, 1, "both"),
    "roberta-prelayernorm": (SMALL, 1, "both"),
    "esm": (SMALL | {"mask_token_id": 3}, 1, "both"),
    "megatron-bert": (SMALL, 0, "both"),
    "eurobert": (SMALL_GROUPED | {"mask_token_id": 3}, 0, "both"),
    "gemma": (SMALL_GROUPED, 0, "none"),
    "gemma3_text": (SMALL_GROUPED | {"sliding_window": 4, "sliding_window_pattern": 2}, 0, "none"),
    "olmo": (SMALL_GROUPED, 0, "none"),
    "olmo2": (SMALL_GROUPED, 0, "none"),
    "phi": (SMALL, 0, "none"),
    "phi3": (SMALL_GROUPED, 0, "none"),
    "starcoder2": (SMALL_GROUPED, 0, "none"),
    "smollm3": (SMALL_GROUPED, 0, "none"),
    "glm": (SMALL_GROUPED, 0, "none"),
    "glm4": (SMALL_GROUPED, 0, "none"),
    "stablelm": (SMALL_GROUPED, 0, "none"),
    "granite": (SMALL_GROUPED | {"residual_multiplier": 0.4, "embedding_multiplier": 3.0}, 0, "none"),
    "cohere": (SMALL_GROUPED, 0, "none"),
    "cohere2": (SMALL_GROUPED | {"sliding_window": 4}, 0, "none"),
    "opt": (
        {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24}
        | {"word_embed_proj_dim": 16, "max_position_embeddings": 64},
        0,
        "none",
    ),
    "gpt_neo": (
        {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]]}
        | {"window_size": 4, "max_position_embeddings": 64}
        | SMALL_ENDS,
        0,
        "none",
    ),
    "gptj": (
        {"n_embd": 16, "n_layer": 2, "n_head": 2, "rotary_dim": 4, "n_positions": 64} | SMALL_ENDS,
        0,
        "none",
    ),
    "nomic_bert": (SMALL, 0, "both"),
    "gte": (SMALL, 0, "both"),
    "jina_embeddings_v3": (SMALL, 0, "both"),
    "ministral3": (SMALL_GROUPED, 0, "none"),
    "olmo3": (SMALL_GROUPED | {"sliding_window": 4}, 0, "none"),
    "bloom": ({"hidden_size": 16, "n_layer": 2, "n_head": 2}, 0, "none"),
    "falcon": ({"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}, 0, "none"),
    "mpt": ({"d_model": 16, "n_layers": 2, "n_heads": 2, "max_seq_len": 64}, 0, "none"),
    "mt5": (
        {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
        | {"decoder_start_token_id": 0, "eos_token_id": 2},
        0,
        "end",
    ),
    "mbart": (
        {"d_model": 16, "encoder_layers": 2, "decoder_layers": 1}
        | {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
        | {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64, "eos_token_id": 2},
        1,
        "both",
    ),
    "mixtral": (SMALL_EXPERTS | {"num_local_experts": 4}, 0, "none"),
    "qwen2_moe": (
        SMALL_EXPERTS
        | {"num_experts": 4, "moe_intermediate_size": 24}
        | {"shared_expert_intermediate_size": 16, "decoder_sparse_step": 1},
        0,
        "none",
    ),
    "qwen3_moe": (
        SMALL_EXPERTS | {"num_experts": 4, "moe_intermediate_size": 24, "mlp_only_layers": [1]},
        0,
        "none",
    ),
    "gpt_oss": (
        SMALL_EXPERTS
        | {"num_local_experts": 4, "sliding_window": 4}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
        0,
        "none",
    ),
    "mobilebert": (
        # Its own NoNorm does not normalise, so that activations of random weights grow until softmax is saturated.
        SMALL | {"embedding_size": 12, "intra_bottleneck_size": 8, "normalization_type": "layer_norm"},
        0,
        "both",
    ),
    "xmod": (SMALL | {"languages": ["de_DE", "en_XX"], "default_language": "en_XX"}, 1, "both"),
    "xlm": ({"emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 64, "n_langs": 1}, 0, "both"),
    "flaubert": ({"emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 64}, 0, "both"),
    "xlnet": ({"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24}, 0, "both"),
    "longformer": (SMALL | {"attention_window": 8}, 1, "two"),
    "nystromformer": (SMALL | {"conv_kernel_size": 3}, 0, "both"),
    "convbert": (SMALL | {"embedding_size": 12, "num_attention_heads": 4}, 0, "both"),
    "funnel": (
        {"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 24, "block_sizes": [1, 1], "num_decoder_layers": 1}
        | {"max_position_embeddings": 64},
        0,
        "both",
    ),
}
CHEAPLY_TESTED = [family for family in CONFIGS if family not in FAMILIES]
# Families that transformers has no classifier for.
TASK_OF = dict.fromkeys(("granite", "cohere", "cohere2"), "causal_lm")
# Options that keep methods cheap in tables of all methods.
CHEAP: dict[str, dict[str, Any]] = {
    "lime": {"samples": 48},
    "kernel_shap": {"samples": 48},
    "integrated_gradients": {"steps": 50},  # or two precisions might stop doubling at different numbers of steps
}


@cache
def tokenizer(pad: int = 0, ends: str = "both") -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[CLS]"] if pad == 0 else ["[CLS]", "[PAD]"]
    special += ["[SEP]", "[MASK]", "[UNK]"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    listed = dict.fromkeys([*special, *WORDS, *letters, *("##" + letter for letter in letters)])
    vocabulary = {piece: number for number, piece in enumerate(listed)}
    inner = Tokenizer(pieces.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if ends != "none":
        first = "[CLS] " if ends != "end" else ""
        between = "[SEP] [SEP]" if ends == "two" else "[SEP]"
        inner.post_processor = processors.TemplateProcessing(
            single=f"{first}$A [SEP]",
            pair=f"{first}$A {between} $B:1 [SEP]:1",
            special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
        )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[SEP]"}
    if ends in ("both", "two"):
        names |= {"mask_token": "[MASK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    inputs = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_input_names=inputs, **names)


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """As GPT-2's: a word after a space and the same word without one are two tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges, grown = [], []
    for word in ("Paris", "film", "one"):
        for end in range(2, len(word) + 1):
            merges.append((word[: end - 1], word[end - 1]))
            grown.append(word[:end])
    merges += [("Ġ", "Paris"), ("Ġ", "film"), ("Ġ", ",")]
    grown += ["ĠParis", "Ġfilm", "Ġ,"]
    listed = dict.fromkeys(["<|endoftext|>", *alphabet, *grown])
    inner = Tokenizer(pieces.BPE({piece: number for number, piece in enumerate(listed)}, merges))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|endoftext|>", pad_token="<|endoftext|>")


def task_of(family: str) -> str:
    return TASK_OF.get(family, "classification")


def make_network(
    family: str,
    *,
    task: str | None = None,
    labels: int = 3,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    **more: Any,
) -> PreTrainedModel:
    settings, pad, ends = CONFIGS[family]
    task = task or task_of(family)
    size = len(tokenizer(pad, ends))
    config = AutoConfig.for_model(family, **(settings | {"vocab_size": size, "pad_token_id": pad} | more))
    config.num_labels = 2 if task == "question_answering" else labels
    torch.manual_seed(seed)
    network = getattr(transformers, find_task(task).auto).from_config(config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" not in name.lower() and parameter.ndim > 1:
                parameter.normal_(0, 0.35)
    cast: PreTrainedModel = network.to(dtype)
    return cast


def make_model(family: str, **more: Any) -> TextModel:
    _, pad, ends = CONFIGS[family]
    task = find_task(more.get("task", task_of(family)))
    return TextModel.of(make_network(family, **more), tokenizer(pad, ends), name=f"tiny-{family}", task=task)


@cache
def tiny(family: str, dtype: torch.dtype = torch.float32) -> TextModel:
    """A model that tests share and leave as they found it."""
    return make_model(family, dtype=dtype)


def make_chat_model(family: str = "llama", template: str = CHAT_TEMPLATE) -> TextModel:
    """A causal model in double precision whose tokenizer, without special tokens of its own, has a chat template."""
    reader = tokenizer.__wrapped__(0, "none")
    reader.chat_template = template
    network = make_network(family, task="causal_lm", dtype=torch.float64)
    return TextModel.of(network, reader, task=make_model(family, task="causal_lm").task)
