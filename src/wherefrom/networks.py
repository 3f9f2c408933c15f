"""Public access to the attention of a Hugging Face network: its modules, and what they compute."""

from torch import nn
from transformers import PreTrainedModel

from wherefrom.model.anatomy import dissect
from wherefrom.model.attention import AttentionCall

__all__ = ["AttentionCall", "attention_modules"]


def attention_modules(network: PreTrainedModel) -> list[nn.Module]:
    """The attention module of every block, the first block first; raises for a family that is not known."""
    return [block.attention for block in dissect(network).blocks]
