"""Sources of an answer: against plain transformers on rebuilt prompts, by hand, and by laws."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import CONFIGS, make_model, make_network, tokenizer

from wherefrom.api import Model
from wherefrom.core.sources import Sources
from wherefrom.errors import BadFile, BadOption, UnknownName, WrongModel
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel
from wherefrom.sources.answered import PassageQuestion
from wherefrom.sources.methods import REMOVING, lasso
from wherefrom.sources.prompts import BuiltPrompt, Prompt, divided, documents_of

FIRST = "the film was great. the plot is not bad. it was dull!"
SECOND = "a movie is fine. the acting was very good."
QUESTION, ANSWER = "is it good?", "the plot is great. it was a fine film."
TEMPLATE = (
    "{% for message in messages %}[CLS] {{ message['role'] }} : {{ message['content'] }} [SEP] {% endfor %}"
    "{% if add_generation_prompt %}[CLS] a : {% endif %}"
)


@cache
def plain_model() -> Model:
    return Model(make_model("llama", task="causal_lm", dtype=torch.float64, max_position_embeddings=256))


@cache
def chat_model() -> Model:
    words = _tokenizer_with_template()
    network = make_network("llama", task="causal_lm", dtype=torch.float64, max_position_embeddings=256)
    return Model(TextModel.of(network, words, name="tiny-chat", task=find_task("causal_lm")))


def _tokenizer_with_template() -> Any:
    import copy

    words = copy.deepcopy(tokenizer(*CONFIGS["llama"][1:]))
    words.chat_template = TEMPLATE
    return words


def log_probability(model: Model, prompt: str, answer: str) -> list[float]:
    """Of every token of the answer, by transformers alone."""
    words, network = model.text_model.reading.tokenizer, model.text_model.network.module
    before = words(prompt, add_special_tokens=False)["input_ids"]
    after = words(f" {answer}", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = network(torch.tensor([before + after])).logits[0].double().log_softmax(-1)
    return [float(logits[len(before) + step - 1, token]) for step, token in enumerate(after)]


def rebuilt(first: str, second: str) -> str:
    passages = "".join(f"{text}\n\n" for text in (first, second) if text)
    return f"{'Context:' if passages else ''}{chr(10) if passages else ''}{passages}Question: {QUESTION}\nAnswer:"


@pytest.mark.parametrize("cost", [0, 10**9])  # of a pass, in tokens: rows by themselves that share, or batches
def test_leave_one_out_is_what_transformers_gives_on_rebuilt_prompts(
    cost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wherefrom.sources.removals.PASS", cost)
    model = plain_model()
    r = model.sources(QUESTION, [FIRST, SECOND], ANSWER, regenerate=False)
    assert [source.text for source in r.statements[0].sources] == [
        "the film was great.", "the plot is not bad.", "it was dull!", "a movie is fine.", "the acting was very good.",
    ]  # fmt: skip
    without = [
        rebuilt("the plot is not bad. it was dull!", SECOND),
        rebuilt("the film was great. it was dull!", SECOND),
        rebuilt("the film was great. the plot is not bad.", SECOND),
        rebuilt(FIRST, "the acting was very good."),
        rebuilt(FIRST, "a movie is fine."),
    ]
    whole = log_probability(model, rebuilt(FIRST, SECOND), ANSWER)
    nothing = log_probability(model, rebuilt("", ""), ANSWER)
    edges = [0, 5, 11]  # "the plot is great ." and "it was a fine film ."
    for number, statement in enumerate(r.statements):
        part = slice(edges[number], edges[number + 1])
        assert statement.log_probability == pytest.approx(sum(whole[part]), rel=1e-6)
        drops = [sum(whole[part]) - sum(log_probability(model, prompt, ANSWER)[part]) for prompt in without]
        assert [source.drop for source in statement.sources] == pytest.approx(drops, rel=1e-4, abs=1e-7)
        assert [source.score for source in statement.sources] == [source.drop for source in statement.sources]
        assert statement.grounding.drop == pytest.approx(sum(whole[part]) - sum(nothing[part]), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("by", ["sentence", "document"])
def test_a_given_prompt_is_used_as_it_is(by: Any) -> None:
    model = plain_model()
    asked = model.sources(QUESTION, [FIRST, SECOND], ANSWER, by=by, regenerate=False)
    prompt = rebuilt(FIRST, SECOND)
    spans = [(prompt.index(text), prompt.index(text) + len(text)) for text in (FIRST, SECOND)]
    given = model.sources(prompt=prompt, context_spans=spans, answer=ANSWER, by=by, regenerate=False)
    assert given.prompt == asked.prompt == prompt
    for one, two in zip(given.statements, asked.statements, strict=True):
        assert one.log_probability == pytest.approx(two.log_probability, rel=1e-9)
        assert [source.text for source in one.sources] == [source.text for source in two.sources]


def test_all_statements_come_from_the_same_passes() -> None:
    model = plain_model()
    both = model.sources(QUESTION, [FIRST, SECOND], ANSWER, regenerate=False)
    one = model.sources(QUESTION, [FIRST, SECOND], ANSWER, regenerate=False, statements=[(0, len(ANSWER))])
    assert len(both.statements) == 2
    assert both.forwards <= one.forwards + 20  # other alternatives of the second statement, and nothing else
    total = sum(statement.log_probability for statement in both.statements)
    assert total == pytest.approx(one.statements[0].log_probability, rel=1e-9)
    for place, source in enumerate(one.statements[0].sources):
        assert both.totals()[place].drop == pytest.approx(source.drop, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("method", ["leave_one_out", "context_cite"])
def test_no_beginning_is_computed_twice(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tokens go through the model as there are different beginnings of the prompts."""
    monkeypatch.setattr("wherefrom.sources.removals.PASS", 0)
    model, begun, lengths = plain_model(), set[tuple[int, ...]](), list[int]()
    read = PassageQuestion(QUESTION, [FIRST, SECOND], ANSWER).read(model.text_model)
    case = read.case(model.text_model, [(0, len(ANSWER))])
    run, build = TextModel.run, Prompt.build

    def counted(self: TextModel, inputs: dict[str, torch.Tensor], *args: Any, **options: Any) -> torch.Tensor:
        lengths.append(inputs["input_ids"].numel())
        return run(self, inputs, *args, **options)

    def seen(self: Prompt, reader: TextModel, kept: Any) -> BuiltPrompt:
        built = build(self, reader, kept)
        ids = (*built.encoding.input_ids, *case.removals.tokens)
        begun.update(ids[:end] for end in range(1, len(ids) + 1))
        return built

    assert case.removals.model.shares_prefixes  # tried now, not while tokens are counted
    monkeypatch.setattr(TextModel, "run", counted)
    monkeypatch.setattr(Prompt, "build", seen)
    REMOVING[method](case)
    assert sum(lengths) == len(begun)


def test_a_chat_is_read_through_its_template() -> None:
    model = chat_model()
    messages = [{"role": "the", "content": "very good!"}, {"role": "a", "content": QUESTION}]
    r = model.sources(messages, {"first": FIRST, "second": SECOND}, ANSWER, regenerate=False)
    assert r.prompt == (
        f"[CLS] the : very good! [SEP] [CLS] a : Context:\nfirst\n{FIRST}\n\nsecond\n{SECOND}\n\nQuestion: {QUESTION}"
        " [SEP] [CLS] a : "
    )
    assert r.question == QUESTION
    assert r.notes == ()
    assert r.name_of(r.statements[0].sources[3]) == "second, sentence 1"
    lost = r.prompt.replace("second\na movie is fine. the acting was very good.\n\n", "")
    by_document = model.sources(messages, {"first": FIRST, "second": SECOND}, ANSWER, by="document", regenerate=False)
    words = model.text_model.reading.tokenizer
    assert words(lost)["input_ids"] != words(r.prompt)["input_ids"]
    drop = sum(log_probability(model, r.prompt, ANSWER)) - sum(log_probability(model, lost, ANSWER))
    assert by_document.totals()[1].drop == pytest.approx(drop, rel=1e-4)


def test_without_a_chat_template_a_plain_prompt_is_used_and_said() -> None:
    r = plain_model().sources(QUESTION, FIRST, ANSWER, regenerate=False)
    assert r.prompt.endswith("Answer:")
    assert "no chat template" in r.notes[0]


def test_kernel_shap_of_few_sources_is_the_mean_over_all_orders() -> None:
    model = plain_model()
    r = model.sources(QUESTION, FIRST, ANSWER, method="kernel_shap", regenerate=False)
    parts = ["the film was great. ", "the plot is not bad. ", "it was dull!"]

    def value(kept: frozenset[int]) -> float:
        text = "".join(part for place, part in enumerate(parts) if place in kept).rstrip()
        return sum(log_probability(model, rebuilt(text, ""), ANSWER))

    known = {kept: value(kept) for kept in map(frozenset, ([], [0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]))}
    shapley = np.zeros(3)
    for order in permutations(range(3)):
        seen: frozenset[int] = frozenset()
        for place in order:
            shapley[place] += (known[seen | {place}] - known[seen]) / 6
            seen |= {place}
    assert [source.score for source in r.totals()] == pytest.approx(shapley.tolist(), rel=1e-4, abs=1e-6)


def test_lasso_recovers_a_planted_linear_function() -> None:
    generator = np.random.default_rng(3)
    kept = (generator.random((256, 6)) < 0.5).astype(float)
    planted = np.array([3.0, 0.0, -2.0, 0.0, 0.0, 1.0])
    weights = lasso(kept, kept @ planted + 0.7, 0.01)
    assert weights == pytest.approx(planted, abs=0.05)
    assert (weights[[1, 3, 4]] == 0).all()


def test_lasso_is_that_of_scikit_learn() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    generator = np.random.default_rng(5)
    kept = (generator.random((32, 9)) < 0.5).astype(float)
    wanted = kept @ generator.normal(size=9) + generator.normal(size=32)
    scale = kept.std(0)
    fitted = linear.Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit((kept - kept.mean(0)) / scale, wanted)
    assert lasso(kept, wanted, 0.1) == pytest.approx(fitted.coef_ / scale, rel=1e-6, abs=1e-8)


def test_hierarchical_looks_only_into_the_strongest_passage() -> None:
    model = plain_model()
    single = model.sources(QUESTION, [FIRST, SECOND], ANSWER, regenerate=False, statements=[(0, len(ANSWER))])
    whole = model.sources(QUESTION, [FIRST, SECOND], ANSWER, by="document", regenerate=False)
    r = model.sources(
        QUESTION, [FIRST, SECOND], ANSWER, method="hierarchical", regenerate=False, statements=[(0, len(ANSWER))]
    )
    documents = [source.drop or 0.0 for source in whole.totals()]
    strongest = int(np.argmax(documents))
    for found, source in zip(r.statements[0].sources, single.statements[0].sources, strict=True):
        members = 3 if source.document == 0 else 2
        expected = source.drop if source.document == strongest else documents[source.document] / members
        assert found.score == pytest.approx(expected, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("method", ["saliency", "attn_lrp", "input_x_gradient", "attcat", "raw_attention", "occlusion"])
def test_methods_that_score_tokens_are_added_up_over_sources(method: str) -> None:
    model = plain_model()
    r = model.sources(QUESTION, [FIRST, SECOND], ANSWER, method=method, regenerate=False)
    assert r.method == method
    assert np.isfinite([source.score or 0.0 for source in r.totals()]).all()
    if method in ("saliency", "attn_lrp", "input_x_gradient"):
        assert r.backwards == 2  # one for each statement


def test_the_gradient_of_a_statement_is_that_of_its_log_probability() -> None:
    model = plain_model()
    r = model.sources(QUESTION, [FIRST, SECOND], ANSWER, method="input_x_gradient", regenerate=False)
    words, network = model.text_model.reading.tokenizer, model.text_model.network.module
    encoding = words(r.prompt, add_special_tokens=False, return_offsets_mapping=True)
    after = words(f" {ANSWER}", add_special_tokens=False)["input_ids"]
    ids = torch.tensor([encoding["input_ids"] + after])
    embedded = network.get_input_embeddings()(ids).detach().requires_grad_()
    logs = network(inputs_embeds=embedded).logits[0].log_softmax(-1)
    start = len(encoding["input_ids"])
    steps = range(5)  # the first statement
    total = sum(logs[start + step - 1, after[step]] for step in steps)
    (slope,) = torch.autograd.grad(total, embedded)
    by_token = (slope * embedded).sum(-1)[0].tolist()
    for source in r.statements[0].sources:
        first = r.prompt.index(source.text)
        inside = [
            score
            for score, (a, b) in zip(by_token, encoding["offset_mapping"], strict=False)
            if first <= a and b <= first + len(source.text)
        ]
        assert source.score == pytest.approx(sum(inside), rel=1e-6, abs=1e-9)


def test_an_order_of_passages_changes_no_score_of_a_removed_passage_alone() -> None:
    model = plain_model()
    r = model.sources(QUESTION, [FIRST], ANSWER, by="document", regenerate=False)
    drop = sum(log_probability(model, rebuilt(FIRST, ""), ANSWER)) - sum(
        log_probability(model, rebuilt("", ""), ANSWER)
    )
    assert r.totals()[0].drop == pytest.approx(drop, rel=1e-4)
    assert sum(s.grounding.drop for s in r.statements) == pytest.approx(drop, rel=1e-4)


def test_saved_and_loaded(tmp_path: Path) -> None:
    r = plain_model().sources(QUESTION, [FIRST, SECOND], ANSWER)
    r.save(tmp_path / "r.json")
    loaded = Sources.load(tmp_path / "r.json")
    assert loaded == r
    assert r.statements[0].test is None or r.statements[0].test.answer is not None
    (tmp_path / "r.json").write_text((tmp_path / "r.json").read_text().replace('"document": 1', '"document": 7'))
    with pytest.raises(BadFile):
        Sources.load(tmp_path / "r.json")


def test_generated_answers_are_split_into_statements() -> None:
    r = plain_model().sources(QUESTION, [FIRST, SECOND], tokens=8, regenerate=False)
    assert r.generated
    assert "".join(r.answer.split()) == "".join("".join(s.text.split()) for s in r.statements)


def test_for_span_finds_the_statement() -> None:
    r = plain_model().sources(QUESTION, FIRST, ANSWER, regenerate=False)
    assert r.for_span("fine film") == r.statements[1]
    with pytest.raises(BadOption, match="does not contain"):
        r.for_span("nobody")
    with pytest.raises(BadOption, match="no statement 2"):
        r.statement(2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"context": None}, "no passage"),
        ({"context": []}, "no passage"),
        ({"context": [FIRST, "  "]}, "passage 2 is empty"),
        ({"context": [FIRST, FIRST]}, "passage 2 is the same as passage 1"),
        ({"context": [FIRST, 3]}, "no text but int"),
        ({"question": "  "}, "question is empty"),
        ({"question": None}, "Ask a question"),
        ({"answer": " "}, "empty"),
        ({"answer": 3}, "no text"),
        ({"statements": [(3, 900)]}, "outside"),
        ({"statements": []}, "no statement"),
        ({"prompt": "a film"}, "not parts of both"),
        ({"context": " ".join([FIRST] * 30)}, "the model reads 256"),
    ],
)
def test_bad_input_is_one_clear_error(given: dict[str, Any], message: str) -> None:
    asked = {"question": QUESTION, "context": [FIRST], "answer": ANSWER} | given
    with pytest.raises(BadOption, match=message):
        plain_model().sources(asked.pop("question"), asked.pop("context"), asked.pop("answer"), **asked)


@pytest.mark.parametrize(
    ("spans", "message"),
    [([], "no passage"), ([(0, 99)], "outside"), ([(0, 4), (2, 6)], "share"), ([("a", 2)], r"is \(start, end\)")],
)
def test_spans_outside_of_the_prompt(spans: Any, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        plain_model().sources(prompt="the film is good", context_spans=spans, answer=ANSWER)


def test_a_model_that_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no answer. Without the top sources, "nothing" is an answer, too."""
    model = plain_model()
    with monkeypatch.context() as patch:
        patch.setattr("wherefrom.model.generating._ends", lambda _: set(range(1000)))
        with pytest.raises(BadOption, match="ends at once"):
            model.sources(QUESTION, FIRST)
        given = model.sources(QUESTION, FIRST, ANSWER, method="random")
    tests = [statement.test for statement in given.statements if statement.test is not None]
    assert tests
    assert {test.answer for test in tests} == {""}
    assert "(nothing)" in given.to_html()


def test_unknown_names() -> None:
    model = plain_model()
    with pytest.raises(UnknownName):
        model.sources(QUESTION, FIRST, ANSWER, method="leave_one_in")
    with pytest.raises(UnknownName):
        model.sources(QUESTION, FIRST, ANSWER, by="chapter")  # type: ignore[arg-type]
    with pytest.raises(UnknownName):
        model.sources(QUESTION, FIRST, ANSWER, method="leave_one_out", samples=3)
    with pytest.raises(WrongModel):
        Model(make_model("bert")).sources(QUESTION, FIRST, ANSWER)


def test_paragraphs_and_documents() -> None:
    documents, named = documents_of({"a": "one two.\n\nthree. four.\n \nfive"})
    assert named
    assert [source.text for source in divided(documents, "paragraph")] == ["one two.", "three. four.", "five"]
    assert [source.text for source in divided(documents, "document")] == [documents[0].text]


@pytest.mark.parametrize("method", list(REMOVING))
def test_every_method_has_a_summary(method: str) -> None:
    assert REMOVING[method].__doc__
