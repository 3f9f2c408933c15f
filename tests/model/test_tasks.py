"""Question answering, masked and causal language models: the same methods, other targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tiny_models import CHEAP, byte_level_tokenizer, make_model, make_network, tokenizer
from tolerances import assert_close, tolerance_of
from torch import Tensor
from toys import case_of

import wherefrom
from wherefrom.api import Model
from wherefrom.core.target import Boundary, SavedTarget, Target
from wherefrom.errors import BadOption, UnknownName, WherefromError, WrongModel
from wherefrom.model.loading import quiet
from wherefrom.model.network import ModuleNetwork, NetworkCall, inputs_of
from wherefrom.model.text_model import PassCount, TextModel
from wherefrom.registry import all_methods
from wherefrom.report.flow import labels as flow_labels
from wherefrom.report.generation import names as generation_names
from wherefrom.report.pieces import pieces

METHODS = [row.name for row in all_methods()]
MASKED = ["the film was [MASK] bad", "a [MASK]", "never a good plot and the [MASK] was very bad . a fine xyz"]
NEXT = ["the film was not", "a", "never a good plot and the acting was very bad . a fine xyz"]
ASKED: list[Any] = [
    ("is it good?", "the film was not bad, but dull!"),
    ("what?", "a fine plot"),
    ("is it dull", "it was never good"),
]
SETTINGS = [
    ("bert", "masked_lm", MASKED),
    ("roberta", "masked_lm", MASKED),
    ("distilbert", "masked_lm", MASKED),
    ("modernbert", "masked_lm", MASKED),
    ("gpt2", "causal_lm", NEXT),
    ("llama", "causal_lm", NEXT),
    ("qwen3", "causal_lm", NEXT),
    ("bert", "token_classification", NEXT),
    ("gpt2", "token_classification", NEXT),
    ("bert", "question_answering", ASKED),
    ("roberta", "question_answering", ASKED),
    ("deberta-v2", "question_answering", ASKED),
]


def model_for(family: str, task: str) -> TextModel:
    return make_model(family, task=task, dtype=torch.float64)


@pytest.mark.parametrize(("family", "task", "texts"), SETTINGS, ids=[f"{f}-{t}" for f, t, _ in SETTINGS])
def test_batching_changes_nothing_for_any_method(family: str, task: str, texts: list[Any]) -> None:
    model = Model(model_for(family, task))
    tolerance = tolerance_of(model.text_model)
    for method in METHODS:
        options = CHEAP.get(method, {})
        for text, together in zip(texts, model.explain(texts, method, **options), strict=True):
            alone = model.explain(text, method, **options)
            assert (alone.target, alone.prediction) == (together.target, together.prediction)
            assert_close(together.probability, alone.probability, tolerance=tolerance)
            assert_close(together.scores, alone.scores, tolerance=tolerance, what=method)


def raw_logits(model: TextModel, text: Any, embeddings: Tensor | None = None) -> Any:
    """The network's own output for one text, alone."""
    encoding = model.encode(*(text if isinstance(text, tuple) else (text,)))
    inputs = inputs_of(model.network, [encoding])
    call = NetworkCall(inputs, ((inputs["input_ids"], embeddings),))
    return ModuleNetwork(model.network.module).run(call)[0]


@pytest.mark.parametrize(("family", "text"), [("bert", MASKED[0]), ("roberta", MASKED[2])])
def test_masked_token_by_hand(family: str, text: str) -> None:
    model = model_for(family, "masked_lm")
    encoding = model.encode(text)
    place = encoding.tokens.index("[MASK]")
    assert encoding.special[place]  # the question itself is never hidden
    index = model.reading.tokenizer.convert_tokens_to_ids("good")
    other = model.reading.tokenizer.convert_tokens_to_ids("dull")
    logits = raw_logits(model, text).logits[0, place]
    explanation = Model(model).explain(text, "saliency", target="good")
    assert explanation.target == "good"
    assert explanation.probability == pytest.approx(logits.softmax(-1)[index].item(), rel=1e-9)
    assert explanation.prediction == model.reading.tokenizer.decode([int(logits.argmax())])
    leaf = model.network.embed(inputs_of(model.network, [encoding])["input_ids"]).detach().requires_grad_()
    found = raw_logits(model, text, leaf).logits[0, place]
    slopes = torch.autograd.grad(found[index] - found[other], leaf)[0][0]
    both = Model(model).explain(text, "saliency", target=("good", "dull"))
    assert both.scores == pytest.approx(slopes.norm(dim=-1).tolist(), rel=1e-9)
    assert both.target == "good rather than dull"
    assert both.probability == pytest.approx((logits[index] - logits[other]).sigmoid().item(), rel=1e-9)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_next_token_by_hand(family: str) -> None:
    model = model_for(family, "causal_lm")
    explanation = Model(model).explain(NEXT[0], "saliency", target="good")
    logits = raw_logits(model, NEXT[0]).logits[0, -1]
    index = model.reading.tokenizer.convert_tokens_to_ids("good")
    assert explanation.probability == pytest.approx(logits.softmax(-1)[index].item(), rel=1e-9)
    assert max(explanation.probabilities.values()) == pytest.approx(logits.softmax(-1).max().item(), rel=1e-9)
    case = case_of(model, NEXT[0])
    torch.testing.assert_close(case.row_read, torch.eye(len(case.encoding), dtype=torch.float64)[-1])


def test_an_answer_is_explained_by_its_start_and_its_end() -> None:
    model = model_for("bert", "question_answering")
    question, context = ASKED[0]
    out = raw_logits(model, ASKED[0])
    encoding = model.encode(question, context)
    inside = [i for i, part in enumerate(encoding.segment) if part == 1]
    start, end = (one[0].detach().log_softmax(-1) for one in (out.start_logits, out.end_logits))
    first, last = max(
        ((i, j) for i in inside for j in inside if j >= i), key=lambda pair: float(start[pair[0]] + end[pair[1]])
    )
    answer = context[encoding.offsets[first][0] : encoding.offsets[last][1]]
    whole = Model(model).explain(ASKED[0], "saliency")
    assert whole.target == whole.prediction == answer
    assert whole.probability == pytest.approx(float((start[first] + end[last]).exp()), rel=1e-9)
    parts = [Model(model).explain(ASKED[0], "saliency", target=part) for part in ("start", "end")]
    assert whole.scores == pytest.approx(
        [a + b for a, b in zip(parts[0].scores, parts[1].scores, strict=True)], rel=1e-9
    )
    leaf = model.network.embed(inputs_of(model.network, [encoding])["input_ids"]).detach().requires_grad_()
    slopes = torch.autograd.grad(raw_logits(model, ASKED[0], leaf).start_logits[0, first], leaf)[0][0]
    assert parts[0].scores == pytest.approx(slopes.norm(dim=-1).tolist(), rel=1e-9)


def test_an_answer_may_be_given_and_is_read_where_it_stands() -> None:
    model = model_for("bert", "question_answering")
    explanation = Model(model).explain(ASKED[0], "attcat", target="not bad")
    assert explanation.target == "not bad"
    encoding = model.encode(*ASKED[0])
    places = [encoding.tokens.index("not"), encoding.tokens.index("bad")]
    case = case_of(model, encoding)
    logits = case.logits
    expected = [Boundary(places[0], "not bad"), Boundary(places[1], "not bad", end=True)]
    assert list(model.task.targets(model, "not bad", logits, encoding)) == expected
    for target in expected:
        aimed = case.toward(target)
        slopes = aimed.gradients.hidden[-1].norm(dim=-1)
        torch.testing.assert_close((slopes > 0).double(), aimed.row_read)


def test_one_recorded_pass_serves_start_and_end() -> None:
    explanation = Model(model_for("bert", "question_answering")).explain(ASKED[0], "attcat")
    assert (explanation.forwards, explanation.backwards) == (1, 2)


@pytest.mark.parametrize("family", ["bert", "gpt2", "modernbert"])
def test_leaving_out_what_is_not_read(family: str) -> None:
    task = "causal_lm" if family == "gpt2" else "masked_lm"
    model = model_for(family, task)
    assert model.network.facts.skips_unread
    inputs = inputs_of(model.network, [model.encode(text) for text in (NEXT if family == "gpt2" else MASKED)])
    with torch.no_grad():
        short, whole = (model.run(inputs, PassCount(), whole=whole) for whole in (False, True))
    assert_close(short, whole, tolerance=tolerance_of(model))
    assert not model_for("bert", "question_answering").network.facts.skips_unread


@pytest.mark.parametrize(
    ("family", "task", "text", "target", "message"),
    [
        ("bert", "masked_lm", "a film", None, r"asked with \[MASK\] in the text"),
        ("bert", "masked_lm", " [MASK] ", None, r"nothing beside \[MASK\]"),
        ("bert", "masked_lm", "a [MASK] [MASK]", "good", "has 2 masks"),
        ("bert", "masked_lm", "a [MASK]", "xyzxyz", "not one token"),
        ("bert", "masked_lm", "a [MASK]", 9999, "no token 9999"),
        ("bert", "question_answering", "who is it", None, "needs a question and a context"),
        ("bert", "question_answering", ("who", "it is me"), "you", "is not in the context"),
        ("bert", "question_answering", ("who", "it is me"), 3, "start, end, span"),
        ("gpt2", "causal_lm", ("a film", "a plot"), None, "Write both texts into one"),
    ],
)
def test_bad_questions(family: str, task: str, text: Any, target: Any, message: str) -> None:
    with pytest.raises((WherefromError, BadOption, UnknownName), match=message):
        Model(model_for(family, task)).explain(text, "saliency", target=target)


def test_the_task_is_found_from_the_files_and_checked(tmp_path: Path) -> None:
    with quiet():
        make_network("bert", task="question_answering").save_pretrained(tmp_path)
        tokenizer().save_pretrained(tmp_path)
    assert wherefrom.load(tmp_path).text_model.task.name == "question_answering"
    with pytest.raises(WrongModel, match="made for question_answering, not for masked_lm"):
        wherefrom.load(tmp_path, task="masked_lm")
    assert (
        wherefrom.load((make_network("gpt2", task="causal_lm"), tokenizer(0, "none"))).text_model.task.name
        == "causal_lm"
    )


def test_two_classes_can_be_compared() -> None:
    model = make_model("bert", dtype=torch.float64)
    logits = case_of(model, "a fine film").logits
    explanation = Model(model).explain("a fine film", "attcat", target=("LABEL_2", 0))
    assert explanation.target == "LABEL_2 rather than LABEL_0"
    assert explanation.probability == pytest.approx((logits[2] - logits[0]).sigmoid().item())
    parts = [Model(model).explain("a fine film", "attcat", target=label).scores for label in (2, 0)]
    assert explanation.scores == pytest.approx([a - b for a, b in zip(*parts, strict=True)], rel=1e-9, abs=1e-12)


def test_a_zero_shot_pipeline_is_refused_with_what_to_write() -> None:
    pipe = transformers.pipeline("zero-shot-classification", model=make_network("bert"), tokenizer=tokenizer())
    with pytest.raises(WrongModel, match=r"load\(pipe, labels=\['sports', 'politics'\]"):
        wherefrom.load(pipe)


def test_no_answer_is_predicted_at_cls() -> None:
    """As SQuAD 2.0 has it: where [CLS] is likelier as start and end than the best span is."""
    model = model_for("bert", "question_answering")
    encoding = model.encode(*ASKED[0])
    logits = torch.zeros(2, len(encoding), dtype=torch.float64)
    inside = [i for i, part in enumerate(encoding.segment) if part == 1]
    logits[0, inside[1]] = logits[1, inside[2]] = 3.0
    assert model.task.predicted(model, logits, encoding).label != "no answer"
    logits[:, 0] = 3.5
    start, end = model.task.targets(model, None, logits, encoding)
    assert (start, end) == (Boundary(0, "no answer"), Boundary(0, "no answer", end=True))
    assert model.task.answer(model, logits, encoding) == []
    asked = Model(model).explain(ASKED[0], "saliency", target="no answer")
    assert asked.components == (SavedTarget(0, boundary="start"), SavedTarget(0, boundary="end"))


@pytest.fixture(scope="module")
def byte_level() -> Model:
    """A causal model whose vocabulary has words with a space before them, and without."""
    cutter = byte_level_tokenizer()
    return wherefrom.load((make_network("gpt2", task="causal_lm", vocab_size=len(cutter)), cutter))


def test_a_token_has_one_name_however_it_was_asked_for(byte_level: Model) -> None:
    model, vocabulary = byte_level.text_model, byte_level.text_model.reading.tokenizer.get_vocab()
    encoding = model.encode("one film")
    for asked in ("Paris", " Paris", vocabulary["ĠParis"]):
        target = model.task.fixed_target(model, asked)
        assert target is not None
        assert (target.index, target.label) == (vocabulary["ĠParis"], "Paris")
    logits = torch.zeros(len(vocabulary))
    logits[vocabulary["ĠParis"]] = 9.0
    assert model.task.predicted(model, logits, encoding).label == "Paris"
    assert byte_level.explain("one film", "random", target=" Paris").target == "Paris"


def test_two_tokens_that_differ_by_a_space_have_two_names(byte_level: Model) -> None:
    """Of one name, the less likely one would take the place of the other in the list of probabilities."""
    model, vocabulary = byte_level.text_model, byte_level.text_model.reading.tokenizer.get_vocab()
    logits = torch.zeros(len(vocabulary))
    for place, token in enumerate(("ĠParis", "Paris", ",", "Ġ,")):
        logits[vocabulary[token]] = 9.0 - place
    named = list(model.task.probabilities(model, logits, Target(0, "any")))
    assert named[:4] == ["Paris", "Paris (no space before)", ",", ", (a space before)"]
    assert len(named) == 5
    for asked, token in ((",", ","), (" ,", "Ġ,")):  # a sign is meant as it usually stands
        target = model.task.fixed_target(model, asked)
        assert target is not None
        assert target.index == vocabulary[token]


def test_white_space_has_a_sign_in_lists_of_classes(byte_level: Model) -> None:
    """Not as the vocabulary writes it; the sign, and white space itself, are targets that mean this token."""
    model, vocabulary = byte_level.text_model, byte_level.text_model.reading.tokenizer.get_vocab()
    logits = torch.zeros(len(vocabulary))
    for place, token in enumerate(("Ċ", "Ġ", "Paris")):
        logits[vocabulary[token]] = 9.0 - place
    assert list(model.task.probabilities(model, logits, Target(0, "any")))[:2] == ["↵", "␣"]
    for asked, token in (("↵", "Ċ"), ("\n", "Ċ"), ("␣", "Ġ"), (" ", "Ġ"), ("\t", "ĉ")):
        target = model.task.fixed_target(model, asked)
        assert target is not None
        assert target.index == vocabulary[token]
    assert byte_level.explain("one film", "random", target="↵").target == "↵"
    with pytest.raises(UnknownName, match="not one token"):
        model.task.fixed_target(model, "↵⇥")


def test_every_view_calls_a_token_by_the_same_name(byte_level: Model) -> None:
    text = "one film,\n\nParis"
    explanation, flow = byte_level.explain(text, "random"), byte_level.flow(text, "norms")
    named = [piece.label for piece in pieces(explanation)]
    assert named == ["one", "film", ",", "↵", "↵", "Paris"]
    assert flow_labels(flow) == named
    assert generation_names(byte_level.generate_and_explain(text, "random", tokens=1))[: len(named)] == named


def test_words_are_deleted_from_a_decoder_that_generates_and_replaced_in_one_that_classifies(byte_level: Model) -> None:
    """As docs/models.md measures: deleting is right for prompts, the control token for sentiment."""
    text = "one film, Paris"
    usual = byte_level.explain(text, "occlusion")
    by_control_token, deleted = (byte_level.explain(text, "occlusion", fill=fill) for fill in ("eos", "delete"))
    assert usual.scores == deleted.scores
    assert max(abs(a - b) for a, b in zip(usual.scores, by_control_token.scores, strict=True)) > 1e-3
    classifier = Model(make_model("gpt2"))
    assert classifier.explain("the film was bad", "occlusion").params["fill"] == "unk"
