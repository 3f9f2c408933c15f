"""What another package would bring through the entry point `wherefrom.tasks`: does the second text follow the first?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wherefrom import Task
from wherefrom.errors import WherefromError

if TYPE_CHECKING:
    from wherefrom.core.encoding import Encoding
    from wherefrom.model.text_model import TextModel


class NextSentence(Task):
    name = "next_sentence"
    auto = "AutoModelForNextSentencePrediction"
    sample_pair = "It is."
    has_labels = True
    position_depends_on_family = True

    def labels(self, model: TextModel) -> list[str]:
        del model
        return ["follows", "does not follow"]

    def check_text(self, model: TextModel, encoding: Encoding) -> Encoding:
        del model
        if encoding.pair is None:
            raise WherefromError("Next sentence needs two texts: explain((first, second)), or --pair.")
        return encoding


NEXT_SENTENCE = NextSentence()
