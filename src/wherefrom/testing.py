"""The laws that every method, metric, family and task obeys: for our own tests, and for those of plug-ins.

No pytest is needed. A law that does not hold raises `LawBroken`, an AssertionError that says which law it is, on which
input, and with which numbers.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from wherefrom.api import Model, load
from wherefrom.case.case import Case, make_cases
from wherefrom.core.encoding import Encoding
from wherefrom.core.explanation import Explanation
from wherefrom.errors import NotDefined, NotSeen, WherefromError
from wherefrom.grading.evidence import Answers, Evidence
from wherefrom.model.network import inputs_of
from wherefrom.registry import Metric, find_method, find_metric
from wherefrom.typing import TextOrPair

__all__ = ["LawBroken", "check_family", "check_method", "check_metric", "check_task", "model_state"]

TEXTS = ("the film was not bad, but dull!", "a great film", "never a good plot and the acting was very bad", "dull")
# The same words in two orders; no rotation of one gives the other.
WORDS, MOVED = "a great film not dull", "dull film a great not"
# How far equal numbers may differ by rounding, as a share of the largest.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
PARTS_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}  # many families compute norms in single precision
ZERO = 1e-12  # a score that is negative by less is a rounded zero


class LawBroken(AssertionError):
    """A method, metric, family or task does not obey a law. The message names the law, the input and the numbers."""


def check_method(
    name: str,
    model: Model | None = None,
    *,
    texts: Sequence[str] = TEXTS,
    options: Mapping[str, Any] | None = None,
    tolerance: float | None = None,
) -> None:
    """Check the laws of a registered method.

    Each token, and at level "word" each word, has one finite score. No score is negative unless the method is `signed`.
    Scores depend on the class if and only if it is `per_class`. A text has the same scores alone, in a list, in a list
    in reverse order, and inside `torch.no_grad` and `torch.inference_mode`. An error of the model is not swallowed. The
    model and its tokenizer are left unchanged, even after such an error. Scores follow their tokens: a word that is
    moved keeps its score in a copy of the model whose position embeddings are all alike. The last law is skipped where
    the order of the words still matters in that copy, as in decoders and models of relative positions.

    Args:
        name: of the method, as in `Model.explain`.
        model: the embedded one in double precision by default.
        texts: at least two, of different lengths.
        options: of the method.
        tolerance: how far equal scores may differ by rounding, as a share of the largest; by default 1e-9 in double and
            1e-4 in single precision.

    Raises:
        LawBroken: if a law does not hold.

    Example:
        >>> wherefrom.testing.check_method("attcat")
    """
    model = model or _embedded()
    row, options = find_method(name), dict(options or {})
    tolerance = _tolerance(model) if tolerance is None else tolerance
    before = model_state(model)

    def explain(text: Any, **arguments: Any) -> Any:
        try:
            return model.explain(text, name, **arguments, **options)
        except NotSeen:
            raise
        except WherefromError as error:
            raise LawBroken(f"{name}: each token or word has one finite score; on {text!r}: {error}") from error

    alone: list[Explanation] = [explain(text) for text in texts]
    explain(texts[0], level="word")
    for law, variant in (
        ("the same scores alone and in a list", explain(list(texts))),
        ("the same scores in any order of the list", explain(list(texts)[::-1])[::-1]),
    ):
        for expected, explanation in zip(alone, variant, strict=True):
            _require_same(explanation, expected, tolerance, f"{name}: {law}")
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            explanation = explain(texts[0])
        _require_same(explanation, alone[0], tolerance, f"{name}: the same scores inside torch.{mode.__name__}")
    _check_declaration(name, explain, texts, len(model.labels), tolerance)
    _require_unchanged(before, model, name)
    for number in (1, 2):
        _check_error_inside_pass(number, name, model, texts[0], options)
        _require_unchanged(before, model, f"{name}, after an error inside pass {number}")
    blind = None if row.family == "floor" else _without_positions(model)  # a floor knows nothing about the tokens
    if blind is not None:
        _check_scores_follow_tokens(name, blind, options, tolerance)


def _check_declaration(name: str, explain: Any, texts: Sequence[str], labels: int, tolerance: float) -> None:
    """`signed` and `per_class` are true of the scores of every class. A model of one label has no other class."""
    table = [explain(text, target=list(range(labels))) for text in texts[:2]]
    for text, explanations in zip(texts, table, strict=False):
        for explanation in explanations:
            nonnegative = min(explanation.scores) >= -ZERO
            law = f"{name}: no negative score, because signed=False"
            _require(explanation.signed or nonnegative, law, text, explanation.scores)
    if labels > 1:
        per_class = find_method(name).per_class
        same = all(_close(other.scores, first.scores, tolerance) for first, *others in table for other in others)
        law = f"{name}: scores {'depend' if per_class else 'do not depend'} on the class, because {per_class=}"
        _require(same != per_class, law, texts[0], [explanation.scores for explanation in table[0]])


def _check_scores_follow_tokens(name: str, blind: Model, options: Mapping[str, Any], tolerance: float) -> None:
    words, moved = (blind.explain(text, name, target=0, **options) for text in (WORDS, MOVED))
    if sorted(words.tokens) != sorted(moved.tokens) or len(set(words.tokens)) < len(words.tokens):
        return  # the tokenizer cuts the words in another way after they are moved, or lacks them
    expected = [words.scores[words.tokens.index(token)] for token in moved.tokens]
    law = f"{name}: scores follow their tokens (a word that is moved keeps its score where positions are not seen)"
    _require(_close(moved.scores, expected, tolerance), law, (WORDS, MOVED), (expected, moved.scores))


def check_metric(name: str, *, seed: int = 0) -> None:
    """Check the laws of a registered metric, on random scores and random answers.

    Its questions are rows of flags, one for each unit, and never hide a special token. Its value is a finite number, or
    it raises `NotDefined`. The same scores have the same value. It changes nothing that it is given. Where it has
    `score_many`, its questions do not depend on the scores, and many explanations have the values that each has alone.

    Args:
        name: of the metric, as in `Model.compare`.
        seed: of the random numbers.

    Raises:
        LawBroken: if a law does not hold.

    Example:
        >>> wherefrom.testing.check_metric("aopc")
    """
    row = find_metric(name)
    metric, special = row.function(), np.asarray([True, False, False, False, False, False, True])
    generator = np.random.default_rng(seed)
    table = np.round(generator.normal(size=(5, len(special))), 1)
    values, kept = [], []
    for scores in table:
        evidence, before = _evidence(scores, special, seed), _evidence(scores, special, seed)
        answers = None
        if row.asks:
            keep = metric.questions(evidence)
            _require_questions(name, keep, special, scores, soft=row.soft)
            kept.append(keep)
            answers = _answers(row, keep, seed)
        first, second = (_value(name, metric, evidence, answers) for _ in range(2))
        _require(first == second, f"{name}: the same scores have the same value", scores, (first, second))
        for part in ("scores", "special", "others", "rationale", "answer", "second", "edited", "randomised"):
            same = np.array_equal(getattr(evidence, part), getattr(before, part), equal_nan=part == "edited")
            _require(same, f"{name}: it changes nothing that it is given", part, getattr(evidence, part))
        if answers is not None:
            same = np.array_equal(answers.probabilities, _answers(row, answers.keep, seed).probabilities)
            _require(same, f"{name}: it changes nothing that it is given", "answers", answers.probabilities)
        values.append(math.nan if first is None else first)
    if row.grades_many:
        same = all(np.array_equal(keep, kept[0]) for keep in kept)
        _require(same, f"{name}: with score_many, questions do not depend on the scores", table, kept)
        many = metric.score_many(table[:, ~special], _answers(row, kept[0], seed))
        law = f"{name}: score_many gives the values that each has alone"
        _require(_close(many, values, 1e-9), law, table, (np.asarray(many).tolist(), values))


def _evidence(scores: Any, special: Any, seed: int) -> Evidence:
    """Scores with everything that a metric may compare them with."""
    generator, n = np.random.default_rng(seed), len(special)
    marked = ~special & (np.arange(n) % 2 == 0)
    return Evidence(
        scores.copy(),
        special.copy(),
        others=generator.normal(size=(2, n)),
        rationale=marked.copy(),
        answer=marked.copy(),
        second=generator.normal(size=n),
        edited=generator.normal(size=(2, n)),
        edits=("typo", "synonym"),
        randomised=generator.normal(size=n),
    )


def _answers(row: Metric, keep: Any, seed: int) -> Answers:
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(1 + len(keep), 3)) if row.wants_logits else None
    return Answers(0.6, generator.uniform(size=len(keep)), keep.copy(), logits)


def _require_questions(name: str, keep: Any, special: Any, scores: Any, *, soft: bool) -> None:
    table = isinstance(keep, np.ndarray) and keep.ndim == 2 and keep.shape[1] == len(special)
    if soft:
        shares = table and keep.dtype == np.float64 and bool(((keep >= 0) & (keep <= 1)).all())
        _require(shares, f"{name}: questions are rows of a share from 0 to 1 for each unit", scores, keep)
    else:
        flags = table and keep.dtype == np.bool_
        _require(flags, f"{name}: questions are rows of a flag for each unit", scores, keep)
    _require(bool((keep[:, special] == 1).all()), f"{name}: questions never hide a special token", scores, keep)


def _value(name: str, metric: Any, evidence: Evidence, answers: Answers | None) -> float | None:
    try:
        measured = metric.score(evidence) if answers is None else metric.score(evidence, answers)
    except NotDefined:
        return None
    value = float(getattr(measured, "value", measured))
    _require(math.isfinite(value), f"{name}: a finite number, or NotDefined", evidence.scores, value)
    return value


def check_family(model: Any, *, text: str = TEXTS[0], tolerance: float | None = None) -> None:
    """Check a registered family on one of its models, which may be small and random.

    The laws hold on a copy of the model whose norms have random weights, because fresh ones are all alike and two that
    are swapped would go unnoticed. As many attentions are seen as blocks run. Their probabilities are the softmax of
    their scores, and sum to one, or to less where heads may attend to a sink. Every block is what its parts give:
    rebuilt from its attention, and as a sum over tokens. Before a `pre`, `parallel` or `sandwich` attention is its
    norm. Looking inside does not change the model's answer. A classification is read at the position that `reads`
    names. Words are hidden by replacing their vectors, which gives the same answer as replacing the words.

    Args:
        model: as `wherefrom.load` takes it, or a `Model`.
        text: what it reads.
        tolerance: how far the parts may be from the whole, as a share of the largest; by default 1e-6 in double and
            1e-4 in single precision.

    Raises:
        LawBroken: if a law does not hold.
        NotSeen: if the model has no family, or its parts are not where the family's row says.

    Example:
        >>> wherefrom.testing.check_family(wherefrom.load())
    """
    loaded = model if isinstance(model, Model) else load(model)
    name = getattr(_network(loaded).config, "model_type", "model")
    lively = _with_random_norms(loaded)
    room = PARTS_TOLERANCE.get(_network(loaded).dtype, 1e-2) if tolerance is None else tolerance
    case = _case(lively, text)
    blocks, layers, length = case.anatomy.blocks, case.capture.attention, len(case.encoding)
    depth = len(case.capture.hidden) - 1
    _require(len(layers) == depth, f"{name}: one attention for each block that runs", text, (len(layers), depth))
    for number, layer in enumerate(layers):
        where = f"{text!r}, layer {number}"
        shape, total = tuple(layer.probs.shape), layer.probs.sum(-1, keepdim=True)
        _require(shape[1:] == (length, length), f"{name}: attention is (head, token, token)", where, shape)
        _require(float(total.max()) <= 1 + room, f"{name}: attention sums to at most one", where, float(total.max()))
        worst = float((layer.scores.softmax(-1) * total - layer.probs).abs().max())
        _require(worst <= room, f"{name}: attention is the softmax of its scores", where, worst)
    for law, error in (
        ("blocks are rebuilt from their parts", case.rebuild_error()),
        ("attention is a sum over tokens", case.parts_error()),
    ):
        _require(error <= room, f"{name}: {law}", text, error)
    answer = _logits(lively, case.encoding)
    _require(_close(case.logits, answer, room), f"{name}: looking inside does not change the answer", text, answer)
    if blocks[0].order != "post":
        _check_norm_before_attention(name, lively, case, room)
    if lively.text_model.task.position_depends_on_family:
        read = (case.gradients.hidden[-1].norm(dim=-1) > 0).nonzero().flatten().tolist()
        expected = {"first": [0], "last": [length - 1], "every": list(range(length))}[case.anatomy.reads]
        _require(read == expected, f"{name}: the decision is read at reads={case.anatomy.reads!r}", text, read)
    _check_hiding(name, lively, case, room)


def _check_norm_before_attention(name: str, model: Model, case: Case, room: float) -> None:
    """What the attention module of a block is given is what the block's first norm gives."""
    outputs: list[Tensor] = []
    inputs: list[Tensor] = []

    def keep_output(_: nn.Module, __: Any, output: Tensor) -> None:
        outputs.append(output)

    def keep_input(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        inputs.append(kwargs.get("hidden_states", tensors[0] if tensors else torch.empty(0)))

    for number, block in enumerate(case.anatomy.blocks):
        if isinstance(block.attention_norm, nn.Identity):
            continue
        handles = (
            block.attention_norm.register_forward_hook(keep_output),
            block.attention.register_forward_pre_hook(keep_input, with_kwargs=True),
        )
        _logits(model, case.encoding)
        for handle in handles:
            handle.remove()
        same = bool(outputs) and outputs[0].shape == inputs[0].shape and _close(inputs[0], outputs[0], room)
        law = f"{name}: the attention reads what attention_norm gives, because order={block.order!r}"
        _require(same, law, f"{case.encoding.text!r}, block {number}", len(outputs))
        outputs.clear()
        inputs.clear()


def check_task(model: Any, texts: Sequence[TextOrPair], *, tolerance: float | None = None) -> None:
    """Check a task on a model that has it, which may be small and random.

    A text has the same target, prediction and probability alone and in a list. Without a target, the prediction is
    explained. Probabilities are between zero and one, and those of labels that exclude each other sum to at most one. A
    target that is saved and restored has the same logit. The other classes differ from the target. Word
    vectors in place of the words give the answer of the words, also for a word that is hidden. The model and its
    tokenizer are left unchanged.

    Args:
        model: as `wherefrom.load` takes it, or a `Model`.
        texts: that the task reads, at least two, of different lengths; (text, pair) where it reads pairs.
        tolerance: how far equal numbers may differ by rounding, as a share of the largest; by default 1e-9 in double
            and 1e-4 in single precision.

    Raises:
        LawBroken: if a law does not hold.

    Example:
        >>> wherefrom.testing.check_task(wherefrom.load(), ["a fine film", "dull"])
    """
    loaded = model if isinstance(model, Model) else load(model)
    text_model, before = loaded.text_model, model_state(loaded)
    task, room = text_model.task, _tolerance(loaded) if tolerance is None else tolerance
    together = loaded.explain(list(texts), "random")
    for text, listed in zip(texts, together, strict=True):
        alone = loaded.explain(text, "random")
        pairs = [(row.target, row.prediction) for row in (alone, listed)]
        _require(pairs[0] == pairs[1], f"{task.name}: the same target and prediction in a list", text, pairs)
        chances = [math.nan if row.probability is None else row.probability for row in (alone, listed)]
        _require(_close(chances[0], chances[1], room), f"{task.name}: the same probability in a list", text, chances)
        case = _case(loaded, text)
        logits, encoding = case.logits, case.encoding
        targets = task.targets(text_model, None, logits, encoding)
        predicted = task.predicted(text_model, logits, encoding)
        _require(targets[0] == predicted, f"{task.name}: without a target, the prediction is explained", text, targets)
        if not text_model.regression:
            probabilities = task.probabilities(text_model, logits, predicted)
            _check_probabilities(task.name, text, probabilities, independent=text_model.independent)
        saved = [target.saved() for target in targets]
        restored = task.restored(text_model, alone.target, saved, logits, encoding)
        scores = [[float(target.score(logits[None])) for target in row] for row in (targets, restored)]
        _require(scores[0] == scores[1], f"{task.name}: a restored target has the same logit", text, scores)
        try:
            others = task.others(text_model, predicted)
        except NotDefined:
            others = []
        _require(predicted not in others, f"{task.name}: the other classes differ from the target", text, others)
        _check_hiding(task.name, loaded, case, room)
    _require_unchanged(before, loaded, task.name)


def _check_probabilities(name: str, text: object, probabilities: Mapping[str, float], *, independent: bool) -> None:
    inside = all(0 <= chance <= 1 for chance in probabilities.values())
    _require(inside, f"{name}: probabilities are between zero and one", text, probabilities)
    total = sum(probabilities.values())
    law = f"{name}: probabilities of classes that exclude each other sum to at most one"
    _require(independent or total <= 1 + 1e-6, law, text, probabilities)


def _check_hiding(name: str, model: Model, case: Case, room: float) -> None:
    """Word vectors in place of the words give the answer of the words, for the text and for one with a hidden word."""
    network, fills = model.text_model.network, model.text_model.hiding.fills
    inputs = inputs_of(network, [case.encoding])
    hidden = inputs["input_ids"].clone()
    hidden[..., int((~case.special).nonzero()[0])] = fills.get("unk", fills.get("eos", 0))  # moves no position
    for law, ids in (("the words' own vectors give the same answer", inputs["input_ids"]), ("hiding hides", hidden)):
        expected, answer = _run(model, {**inputs, "input_ids": ids}), _run(model, inputs, network.embed(ids))
        _require(_close(answer, expected, room), f"{name}: {law}", case.encoding.text, (answer, expected))


def model_state(model: Model) -> dict[str, Any]:
    """Everything that an explanation might change about a model: hooks, settings, gradients, weights, the tokenizer.

    Args:
        model: any.

    Returns:
        A dict to compare with that of another time.

    Example:
        >>> before = model_state(model)
        >>> model.explain("a fine film")
        >>> assert model_state(model) == before
    """
    network, tokenizer = _network(model), _tokenizer(model)
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "hooks": sum(len(getattr(module, kind)) for module in network.modules() for kind in kinds),
        "config": copy.deepcopy(network.config.to_dict()),
        "attention implementation": network.config._attn_implementation,
        "requires_grad": [weight.requires_grad for weight in network.parameters()],
        "grad": [weight.grad is None for weight in network.parameters()],
        "training": [module.training for module in network.modules()],
        "dtype": [weight.dtype for weight in network.parameters()],
        "weights": [weight.detach().sum().item() for weight in network.parameters()],
        "forward": ["forward" in vars(module) for module in network.modules()],
        "tokenizer": (len(tokenizer), tokenizer.padding_side, tokenizer.truncation_side, repr(tokenizer)),
        "tokenizer state": tokenizer.backend_tokenizer.to_str(),
        "function mode": torch.overrides._get_current_function_mode(),
    }


class _Failure(RuntimeError):
    pass


def _check_error_inside_pass(number: int, name: str, model: Model, text: str, options: Mapping[str, Any]) -> None:
    """Let a module in the middle of a pass raise an error, which the method must not swallow."""
    network, reached, passes, raised = _network(model), list[nn.Module](), list[int](), list[int]()
    leaves = [module for module in network.modules() if not list(module.children())]
    handles = [leaf.register_forward_pre_hook(lambda module, _: reached.append(module)) for leaf in leaves]
    _logits(model, model.text_model.encode(text))
    for handle in handles:
        handle.remove()

    def fail(*_: Any) -> None:
        if len(passes) >= number:
            raised.append(number)
            raise _Failure

    handles = [
        network.register_forward_pre_hook(lambda *_: passes.append(number)),
        reached[len(reached) // 2].register_forward_pre_hook(fail),
    ]
    try:
        model.explain(text, name, **options)
        _require(not raised, f"{name}: it swallows no error of the model", text, f"pass {number}")
    except _Failure:
        pass
    finally:
        for handle in handles:
            handle.remove()


def _embedded() -> Model:
    """The embedded model in double precision."""
    model = load()
    return load((copy.deepcopy(_network(model)).double(), _tokenizer(model)))


def _without_positions(model: Model) -> Model | None:
    """A copy of the model whose position embeddings are all alike; None where the order of the words still matters."""
    network = copy.deepcopy(_network(model))
    tables = [
        module
        for name, module in network.named_modules()
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding)
    ]
    with torch.no_grad():
        for table in tables:  # not zero: gradient x input of a norm's only input would be zero, and its scores rounding
            table.weight.copy_(table.weight.mean(0).expand_as(table.weight))
    blind = load((network, _tokenizer(model)))
    words, moved = (_logits(blind, blind.text_model.encode(text)) for text in (WORDS, MOVED))
    return blind if _close(words, moved, _tolerance(model)) else None


def _with_random_norms(model: Model) -> Model:
    """A copy of the model in which no two norms are alike."""
    network, generator = copy.deepcopy(_network(model)), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in network.modules():
            weight = getattr(module, "weight", None)
            if isinstance(weight, nn.Parameter) and weight.ndim == 1:
                weight.mul_(0.5 + torch.rand(weight.shape, generator=generator).to(weight))
    return load((network, _tokenizer(model)))


def _network(model: Model) -> Any:
    return model.text_model.network.module


def _tokenizer(model: Model) -> Any:
    return model.text_model.reading.tokenizer


def _case(model: Model, text: TextOrPair) -> Case:
    encoding = model.text_model.encode(*((text,) if isinstance(text, str) else text))
    (cases,) = make_cases(model.text_model, [encoding], [None], reads=["gradients"])
    return cases[0]


def _run(model: Model, inputs: dict[str, Tensor], embeddings: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        return model.text_model.run(inputs, embeddings=embeddings, whole=True)[0]


def _logits(model: Model, encoding: Encoding) -> Tensor:
    """What the model answers when nothing is recorded."""
    return _run(model, inputs_of(model.text_model.network, [encoding]))


def _tolerance(model: Model) -> float:
    return TOLERANCE.get(_network(model).dtype, 1e-2)


def _require(holds: bool, law: str, on: object, numbers: object) -> None:
    if not holds:
        raise LawBroken(f"{law}; on {on!r}: {numbers}")


def _require_unchanged(before: Mapping[str, Any], model: Model, name: str) -> None:
    after = model_state(model)
    changed = [part for part in before if after[part] != before[part]]
    _require(not changed, f"{name}: the model is left unchanged", changed, [after[part] for part in changed])


def _require_same(explanation: Explanation, expected: Explanation, tolerance: float, law: str) -> None:
    _require(explanation.tokens == expected.tokens, law, expected.text, explanation.tokens)
    for choice, other in zip(explanation.selection, expected.selection, strict=True):
        if choice["chosen"] != other["chosen"]:  # two choices may tie, and then their scores have nothing in common
            _require(_close(choice["score"], other["score"], tolerance), law, expected.text, (choice, other))
            return
    close = _close(explanation.scores, expected.scores, tolerance)
    _require(close, law, expected.text, (explanation.scores, expected.scores))


def _close(numbers: Any, expected: Any, tolerance: float) -> bool:
    """Equal but for rounding: each number to `tolerance` of itself, or of the largest."""
    actual, exact = (torch.as_tensor(value, dtype=torch.float64).detach() for value in (numbers, expected))
    finite = exact[exact.isfinite()]
    room = tolerance * max(1e-6, float(finite.abs().max()) if finite.numel() else 0.0)
    return actual.shape == exact.shape and torch.allclose(actual, exact, rtol=tolerance, atol=room, equal_nan=True)
