"""What a model was made to do: one file a task, and the table of them."""

from wherefrom.model.tasks.classification import Classification
from wherefrom.model.tasks.masked_token import MaskedToken
from wherefrom.model.tasks.multiple_choice import MultipleChoice
from wherefrom.model.tasks.next_token import NextToken
from wherefrom.model.tasks.question_answering import QuestionAnswering
from wherefrom.model.tasks.seq2seq import Seq2Seq
from wherefrom.model.tasks.similarity import EmbeddingSimilarity
from wherefrom.model.tasks.task import TargetSpec, Task
from wherefrom.model.tasks.token_classification import TokenClassification

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        *(Classification(), TokenClassification(), QuestionAnswering()),
        *(MaskedToken(), NextToken(), Seq2Seq(), MultipleChoice(), EmbeddingSimilarity()),
    )
}

__all__ = ["TASKS", "TargetSpec", "Task"]
