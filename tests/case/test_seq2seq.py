"""Models with an encoder and a decoder: the matrix of source and output tokens against plain calls of transformers."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tiny_models import CONFIGS, make_model, make_network, tokenizer
from torch import Tensor
from transformers import AutoConfig, AutoModelForSeq2SeqLM
from typer.testing import CliRunner

import wherefrom
from wherefrom.api import Model
from wherefrom.benchmark.plan import RunPlan
from wherefrom.benchmark.run import run
from wherefrom.case.generation import explain_generation
from wherefrom.cli.main import app
from wherefrom.core.generation import Generation
from wherefrom.errors import BadOption, EmptyText, NotSeen, WherefromError, WrongModel
from wherefrom.model.hiding import fill_token
from wherefrom.model.tasks import find_task
from wherefrom.model.text_model import TextModel
from wherefrom.registry import all_methods, find_method
from wherefrom.report.generation import print_generation

SOURCE = "the film was not bad"
OUTPUT = "it was good"
WORKS = {
    "saliency",
    "input_x_gradient",
    "integrated_gradients",
    "best",
    "occlusion",
    "kernel_shap",
    "lime",
    "random",
    "raw_attention",
    "gae",
    "attention_rollout",
    "attention_flow",
    "attention_gradients",
    "attention_x_gradient",
    "cam",
    "gradcam",
    "cat",
    "attcat",
    "attn_lrp",
    "cp_lrp",
}


@pytest.fixture(scope="module", params=["t5", "bart"])
def model(request: pytest.FixtureRequest) -> Model:
    return Model(make_model(request.param, task="seq2seq", dtype=torch.float64))


def ids_of(model: Model, generation: Generation) -> tuple[list[int], list[int]]:
    """What the encoder reads, and what the decoder is fed: its start token and the output but for its last token."""
    source = model.text_model.reading.tokenizer(generation.text)["input_ids"]
    return source, [model.text_model.network.module.config.decoder_start_token_id, *generation.token_ids[:-1]]


def plain_logits(model: Model, source: list[int], fed: list[int]) -> Tensor:
    """(step, word), straight from transformers."""
    with torch.no_grad():
        found: Tensor = model.text_model.network.module(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([fed])
        ).logits[0]
    return found


def test_teacher_forcing_is_a_plain_call(model: Model) -> None:
    found = model.generate_and_explain(SOURCE, "random", continuation=OUTPUT)
    source, fed = ids_of(model, found)
    assert found.tokens == (
        *model.text_model.reading.tokenizer.convert_ids_to_tokens(source),
        *found.tokens[len(source) :],
    )
    assert len(found.tokens) == len(source) + 1  # and the decoder's start token, which is special
    assert found.segment[-1] < 0
    logits = plain_logits(model, source, fed)
    for step, token in enumerate(found.token_ids):
        assert found.probabilities[step] == pytest.approx(logits[step].softmax(-1)[token].item(), rel=1e-9)


def test_gradients_of_source_and_prefix_by_hand(model: Model) -> None:
    found = model.generate_and_explain(SOURCE, "input_x_gradient", continuation=OUTPUT)
    assert (found.forwards, found.backwards) == (1, 3)
    source, fed = ids_of(model, found)
    network = model.text_model.network.module
    looked_up = network.get_input_embeddings()
    for step, token in enumerate(found.token_ids):
        read, written = (looked_up(torch.tensor([ids])).detach().requires_grad_() for ids in (source, fed))
        logits = network(inputs_embeds=read, decoder_inputs_embeds=written).logits[0]
        slopes = torch.autograd.grad(logits[step, token], [read, written])
        by_hand = [((e * g).sum(-1)[0]).tolist() for e, g in zip((read, written), slopes, strict=True)]
        expected = [*by_hand[0], *by_hand[1][: step + 1]]
        assert found.scores[step][: len(expected)] == pytest.approx(expected, abs=1e-9)
        assert not any(found.scores[step][len(expected) :])  # nothing comes from what is behind
        assert any(abs(score) > 1e-6 for score in by_hand[1])


def test_hiding_a_source_token_is_another_id(model: Model) -> None:
    found = model.generate_and_explain(SOURCE, "occlusion", continuation=OUTPUT, fill="unk")
    source, fed = ids_of(model, found)
    whole, filler = plain_logits(model, source, fed).log_softmax(-1), fill_token(model.text_model, "unk")
    for place in range(len(found.tokens)):
        if found.segment[place] < 0:
            assert all(row[place] == 0 for row in found.scores)
            continue
        changed = [filler if i == place else token for i, token in enumerate(source)]
        without = plain_logits(model, changed, fed).log_softmax(-1)
        for step, token in enumerate(found.token_ids):
            assert found.scores[step][place] == pytest.approx((whole - without)[step, token].item(), abs=1e-9)
    assert found.forwards == 1 + sum(part >= 0 for part in found.segment)  # whatever the number of output tokens


def test_erasure_deletes_source_tokens(model: Model) -> None:
    """Also: rows of different lengths in one batch are answered as each alone is."""
    found = model.generate_and_explain(SOURCE, "saliency", continuation=OUTPUT)
    source, fed = ids_of(model, found)
    whole = plain_logits(model, source, fed)
    real = [place for place, part in enumerate(found.segment) if part >= 0]
    grades = model.evaluate_generation(found, ["comprehensiveness"])
    for step, token in enumerate(found.token_ids):
        order = sorted(real, key=lambda place, step=step: -found.scores[step][place])  # type: ignore[misc]
        drops = []
        for percent in (5, 10, 20, 50):
            gone = order[: -(-percent * len(real) // 100)]
            without = plain_logits(model, [one for place, one in enumerate(source) if place not in gone], fed)
            drops.append((whole[step].softmax(-1) - without[step].softmax(-1))[token].item())
        assert grades[step][0].details["curve"] == pytest.approx(drops, abs=1e-9)


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_integrated_gradients_add_up(family: str) -> None:
    model = Model(make_model(family, task="seq2seq", dtype=torch.float64))
    with torch.no_grad():  # calmer weights, so that some hundred steps are enough
        for parameter in model.text_model.network.module.parameters():
            if parameter.ndim > 1:
                parameter.mul_(0.4)
    found = model.generate_and_explain(SOURCE, "integrated_gradients", continuation=OUTPUT, steps=400, baseline="unk")
    source, fed = ids_of(model, found)
    filler = fill_token(model.text_model, "unk")
    hidden = [token if found.segment[i] < 0 else filler for i, token in enumerate(source)]
    moved = plain_logits(model, source, fed) - plain_logits(model, hidden, fed)
    for step, token in enumerate(found.token_ids):
        size = np.abs(found.scores[step]).sum()
        assert sum(found.scores[step]) == pytest.approx(moved[step, token].item(), abs=0.01 * size)


def eager_attentions(model: Model, source: list[int], fed: list[int]) -> Any:
    """Transformers' own record of all attentions, from a copy of the network that keeps it."""
    network = model.text_model.network.module
    config = AutoConfig.for_model(**network.config.to_dict())
    config._attn_implementation = "eager"
    eager = AutoModelForSeq2SeqLM.from_config(config).double().eval()
    eager.load_state_dict(network.state_dict())
    return eager(
        input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([fed]), output_attentions=True, use_cache=False
    )


def test_raw_attention_is_the_decoders(model: Model) -> None:
    found = model.generate_and_explain(SOURCE, "raw_attention", continuation=OUTPUT)
    source, fed = ids_of(model, found)
    record = eager_attentions(model, source, fed)
    cross, own = (layers[-1][0].mean(0) for layers in (record.cross_attentions, record.decoder_attentions))
    for step in range(3):
        expected = [*cross[step].tolist(), *own[step, : step + 1].tolist()]
        assert found.scores[step][: len(expected)] == pytest.approx(expected, abs=1e-9)
        assert sum(found.scores[step]) == pytest.approx(2)  # the source's share is one, and so is the output's


def test_rollout_mixes_source_and_output(model: Model) -> None:
    """From the bottom up, by blocks: what every position of the output holds of the source and of the output."""
    found = model.generate_and_explain(SOURCE, "attention_rollout", continuation=OUTPUT)
    source, fed = ids_of(model, found)
    record = eager_attentions(model, source, fed)
    encoded = torch.eye(len(source), dtype=torch.float64)
    for layer in record.encoder_attentions:
        encoded = (encoded + layer[0].mean(0) @ encoded) / 2
    of_source, of_output = torch.zeros(len(fed), len(source)).double(), torch.eye(len(fed)).double()
    for own, cross in zip(record.decoder_attentions, record.cross_attentions, strict=True):
        of_source = (of_source + own[0].mean(0) @ of_source) / 2
        of_output = (of_output + own[0].mean(0) @ of_output) / 2
        of_source, of_output = (of_source + cross[0].mean(0) @ encoded) / 2, of_output / 2
    flow = model.generate_and_explain(SOURCE, "attention_flow", continuation=OUTPUT)
    for step in range(3):
        expected = [*of_source[step].tolist(), *of_output[step].tolist()]
        assert found.scores[step][: len(expected)] == pytest.approx(expected, abs=1e-9)
        assert sum(found.scores[step]) == pytest.approx(1)
        # What rollout sends along the pipes fits into them, so the greatest flow is no smaller; and one unit enters.
        for least, most in zip(found.scores[step], flow.scores[step], strict=True):
            assert least - 1e-6 <= most <= 1 + 1e-6


def test_gradients_of_attention_by_hand(model: Model) -> None:
    names = ("attention_gradients", "attention_x_gradient", "cam", "gradcam")
    found = {name: model.generate_and_explain(SOURCE, name, continuation=OUTPUT) for name in names}
    source, fed = ids_of(model, found["cam"])
    record = eager_attentions(model, source, fed)

    for step, token in enumerate(found["cam"].token_ids):
        score, now = record.logits[0, step, token], step + 1
        expected: dict[str, list[float]] = {name: [] for name in names}
        for layers in (record.cross_attentions, record.decoder_attentions):  # source first, then the output
            slopes = [torch.autograd.grad(score, layer, retain_graph=True)[0][0] for layer in layers]
            keys = len(source) if layers is record.cross_attentions else now
            last, probs = slopes[-1][:, :now, :keys], layers[-1][0].detach()
            expected["attention_gradients"] += last[:, step].mean(0).tolist()
            products = sum(
                (layer[0].detach() * slope)[:, step, :keys].mean(0) for layer, slope in zip(layers, slopes, strict=True)
            )
            assert isinstance(products, Tensor)
            expected["attention_x_gradient"] += products.tolist()
            expected["cam"] += last.mean((0, 1)).clamp(min=0).tolist()
            weighted = (probs[:, step, :keys] * last.mean((1, 2))[:, None]).mean(0)
            expected["gradcam"] += weighted.clamp(min=0).tolist()
        for name in names:
            given = found[name].scores[step]
            assert given[: len(source) + now] == pytest.approx(expected[name], abs=1e-9), name
            assert not any(given[len(source) + now :])


def test_hidden_states_by_hand(model: Model) -> None:
    """The input of every block, caught by hooks that know nothing of ours."""
    network = model.text_model.network.module
    caught: dict[str, list[Tensor]] = {"encoder": [], "decoder": []}
    layers = {
        stack: getattr(
            getattr(network.base_model, stack), "block" if hasattr(network.base_model.encoder, "block") else "layers"
        )
        for stack in caught
    }
    hooks = [
        block.register_forward_pre_hook(
            lambda _, args, kwargs, stack=stack: caught[stack].append(args[0] if args else kwargs["hidden_states"]),
            with_kwargs=True,
        )
        for stack, blocks in layers.items()
        for block in blocks
    ]
    try:
        found = model.generate_and_explain(SOURCE, "random", continuation=OUTPUT)
        source, fed = ids_of(model, found)
        for states in caught.values():
            states.clear()
        logits = network(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([fed])).logits[0]
    finally:
        for hook in hooks:
            hook.remove()
    record = eager_attentions(model, source, fed)
    impacts = model.generate_and_explain(SOURCE, "cat", continuation=OUTPUT)
    weighted = model.generate_and_explain(SOURCE, "attcat", continuation=OUTPUT)
    for step, token in enumerate(found.token_ids):
        plain: list[float] = []
        received: list[float] = []
        for stack, attentions in (("encoder", record.encoder_attentions), ("decoder", record.decoder_attentions)):
            slopes = torch.autograd.grad(logits[step, token], caught[stack], retain_graph=True)
            impact = [(state * slope)[0].sum(-1).detach() for state, slope in zip(caught[stack], slopes, strict=True)]
            now = len(source) if stack == "encoder" else step + 1
            shares = [layer[0, :, :now, :now].mean((0, 1)).detach() for layer in attentions]
            plain += torch.stack(impact)[:, :now].sum(0).tolist()
            both = [one[:now] * share for one, share in zip(impact, shares, strict=True)]
            received += torch.stack(both).sum(0).tolist()
        assert impacts.scores[step][: len(plain)] == pytest.approx(plain, abs=1e-9)
        assert weighted.scores[step][: len(plain)] == pytest.approx(received, abs=1e-9)
    with pytest.raises(BadOption, match="take layers=sum"):
        model.generate_and_explain(SOURCE, "attcat", continuation=OUTPUT, layers="rollout")


def test_cp_lrp_loses_nothing_without_biases() -> None:
    """T5 has no biases: all that a logit is goes back to the words of source and output."""
    model = Model(make_model("t5", task="seq2seq", dtype=torch.float64))
    found = model.generate_and_explain(SOURCE, "cp_lrp", continuation=OUTPUT)
    logits = plain_logits(model, *ids_of(model, found))
    for step, token in enumerate(found.token_ids):
        assert sum(found.scores[step]) == pytest.approx(logits[step, token].item(), abs=1e-9)


@pytest.mark.parametrize("method", sorted(WORKS - {"best", "kernel_shap", "lime", "integrated_gradients", "random"}))
def test_a_token_depends_on_nothing_behind_it(method: str) -> None:
    """By any method, one pass over the whole output gives what a pass over each prefix of it does."""
    model = Model(make_model("bart", task="seq2seq", dtype=torch.float64))
    whole, start = (model.generate_and_explain(SOURCE, method, continuation=one) for one in (OUTPUT, "it was"))
    for one, other in zip(whole.scores, start.scores, strict=False):
        assert one[: len(other)] == pytest.approx(other, abs=1e-9)


def test_gae_by_the_papers_rules(model: Model) -> None:
    """A slow rewrite, one loop a rule: Chefer et al. 2021, equations 5 to 10, for an encoder and a decoder."""
    found = model.generate_and_explain(SOURCE, "gae", continuation=OUTPUT)
    source, fed = ids_of(model, found)
    record = eager_attentions(model, source, fed)
    stacks = (record.encoder_attentions, record.decoder_attentions, record.cross_attentions)

    def normalised(relevance: Tensor) -> Tensor:
        out = relevance.clone()
        for i in range(len(out)):
            out[i, i] -= 1
            if out[i].sum() > 0:
                out[i] /= out[i].sum()
            out[i, i] += 1
        return out

    for step, token in enumerate(found.token_ids):
        weighted = [
            [
                (layer[0].detach() * torch.autograd.grad(record.logits[0, step, token], layer, retain_graph=True)[0][0])
                .clamp(min=0)
                .mean(0)
                for layer in layers
            ]
            for layers in stacks
        ]
        relevance = torch.eye(len(source), dtype=torch.float64)
        for layer in weighted[0]:
            relevance = relevance + layer @ relevance
        inside, across = torch.eye(len(fed), dtype=torch.float64), torch.zeros(len(fed), len(source)).double()
        for own, cross in zip(weighted[1], weighted[2], strict=True):
            inside, across = inside + own @ inside, across + own @ across
            across = across + normalised(inside).T @ cross @ normalised(relevance)
        expected = [*across[step].tolist(), *inside[step, : step + 1].tolist()]
        assert found.scores[step][: len(expected)] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("method", [row.name for row in all_methods()])
def test_every_method_works_or_says_that_it_does_not(method: str) -> None:
    model = Model(make_model("t5", task="seq2seq"))
    options: dict[str, Any] = {"samples": 8} if method in ("lime", "kernel_shap") else {}
    if method in WORKS:
        found = model.generate_and_explain("a film", method, continuation="it", **options)
        assert np.isfinite(found.scores).all()
        return
    with pytest.raises(NotSeen, match="Not yet for models with an encoder and a decoder"):
        model.generate_and_explain("a film", method, continuation="it")


def test_the_likeliest_output(model: Model) -> None:
    found = model.generate_and_explain(SOURCE, "saliency", tokens=5)
    source, fed = ids_of(model, found)
    assert 1 <= len(found.token_ids) <= 5
    assert found.token_ids == tuple(plain_logits(model, source, fed).argmax(-1).tolist())


def test_what_an_output_begins_with() -> None:
    """A language that is forced behind the start token is fed to the decoder, and counts as special."""
    model = Model(make_model("mbart", task="seq2seq", dtype=torch.float64, decoder_start_token_id=2))
    inner, language = model.text_model, 9
    inner.network.module.generation_config.forced_bos_token_id = language
    inner.network.module.generation_config.bad_words_ids = [[7]]
    found = model.generate_and_explain(SOURCE, "saliency", tokens=3)
    assert found.tokens[-1] == inner.reading.tokenizer.convert_ids_to_tokens(language)
    source = inner.reading.tokenizer(SOURCE)["input_ids"]
    fed = [inner.network.module.config.decoder_start_token_id, language, *found.token_ids[:-1]]
    logits = plain_logits(model, source, fed)[1:]
    logits[:, 7] = -torch.inf
    assert found.token_ids == tuple(logits.argmax(-1).tolist())


def test_other_families_work_where_nothing_is_looked_into() -> None:
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 64}
    words = tokenizer(0, "end")
    config = AutoConfig.for_model(
        "marian", vocab_size=len(words), pad_token_id=0, decoder_start_token_id=0, eos_token_id=2, **sizes, **heads
    )
    torch.manual_seed(0)
    network = AutoModelForSeq2SeqLM.from_config(config).double().eval()
    model = wherefrom.load((network, words))
    for method in ("saliency", "occlusion", "gae", "raw_attention"):
        found = model.generate_and_explain(SOURCE, method, continuation=OUTPUT)
        assert np.isfinite(found.scores).all()


def test_the_sum_of_an_output(model: Model) -> None:
    matrix = model.generate_and_explain(SOURCE, "saliency", continuation=OUTPUT)
    for whole in (model.explain(SOURCE, "saliency", OUTPUT), model.explain([SOURCE], "saliency", OUTPUT)[0]):
        assert whole.scores == pytest.approx(np.asarray(matrix.scores).sum(0).tolist())
        assert whole.task == "seq2seq"
    generated = model.generate_and_explain(SOURCE, "saliency")
    assert model.explain(SOURCE, "saliency").scores == pytest.approx(generated.total().scores)
    rather = model.explain(SOURCE, "saliency", (OUTPUT, "it was dull"))
    alone = model.generate_and_explain(SOURCE, "saliency", continuation=OUTPUT, rather_than="it was dull")
    assert rather.scores == pytest.approx(alone.total().scores)
    assert [one is None for one in alone.versus] == [True, True, False]


def chances_of(model: Model, source: list[int], fed: list[int], tokens: tuple[int, ...]) -> list[float]:
    """The probability of every token of an output, straight from transformers."""
    logits = plain_logits(model, source, fed)
    return [logits[step].softmax(-1)[token].item() for step, token in enumerate(tokens)]


def geometric_mean(chances: list[float]) -> float:
    return float(np.exp(np.log(chances).mean()))


def test_whole_outputs_are_compared(model: Model) -> None:
    """Every method explains the sum over the tokens of the output, and metrics ask for the probability of all."""
    methods = ["saliency", "occlusion", "raw_attention"]
    found = model.compare(SOURCE, methods, ["aopc"], target=OUTPUT)
    matrix = model.generate_and_explain(SOURCE, "saliency", continuation=OUTPUT)
    source, fed = ids_of(model, matrix)
    whole = geometric_mean(chances_of(model, source, fed, matrix.token_ids))
    for name, one, (grade,) in zip(methods, found.explanations, found.grades, strict=True):
        each = model.generate_and_explain(SOURCE, name, continuation=OUTPUT)
        assert one.target == each.total().target == each.continuation.strip()
        assert one.scores == pytest.approx(each.total().scores)
        assert one.probability == pytest.approx(whole, rel=1e-9)
        assert each.total().probability == pytest.approx(whole, rel=1e-9)
        real = [place for place, part in enumerate(each.segment) if part >= 0]
        order = sorted(real, key=lambda place, one=one: -one.scores[place])  # type: ignore[misc]
        left = [token for place, token in enumerate(source) if place not in order[:2]]  # without 40% of five words
        drop = whole - geometric_mean(chances_of(model, left, fed, matrix.token_ids))
        assert grade.details["curve"][4] == pytest.approx(drop, abs=1e-9)
        again = model.evaluate(one, ["aopc"]).grades[0][0]  # and of an explanation that is there already
        assert again.value == pytest.approx(grade.value)
        assert model.evaluate(each.total(), ["aopc"]).grades[0][0].value == pytest.approx(grade.value)
    generated = model.compare(SOURCE, ["saliency"], ["aopc"])
    assert generated.explanations[0].target == model.generate_and_explain(SOURCE).continuation.strip()
    assert generated.explanations[0].prediction == generated.explanations[0].target
    assert model.predicted(SOURCE) == [generated.explanations[0].target]
    with pytest.raises(BadOption, match="compare two models"):
        model.compare(SOURCE, ["saliency"], ["spearman"], against=model)


def test_by_word_and_checked(model: Model) -> None:
    by_token = model.explain(SOURCE, "occlusion", OUTPUT)
    by_word = model.explain(SOURCE, "occlusion", OUTPUT, "word", check=True)
    assert by_word.level == "word"
    assert by_word.check is not None
    assert by_word.scores == pytest.approx(by_token.scores, abs=1e-9)  # every word is a token here
    both = model.explain(SOURCE, "saliency", [OUTPUT, "dull"])
    assert [one.target for one in both] == [by_token.target, "dull"]


def greedy(model: Model, source: list[int], most: int) -> list[int]:
    """What is written of a source, by one plain call for each token."""
    network = model.text_model.network.module
    settings, tokens = network.generation_config, model.text_model.reading.tokenizer
    ends = {settings.eos_token_id, tokens.eos_token_id}
    found: list[int] = []
    while len(found) < most:
        token = int(plain_logits(model, source, [network.config.decoder_start_token_id, *found])[-1].argmax())
        if found and token in ends:
            break
        found.append(token)
    return found


def test_flip_is_the_smallest_change_to_another_output(model: Model) -> None:
    encoding = model.text_model.encode(SOURCE)
    words = [place for place, part in enumerate(encoding.segment) if part >= 0]
    source = model.text_model.reading.tokenizer(SOURCE)["input_ids"]
    before = greedy(model, source, 20)
    outputs = {
        hidden: greedy(model, [token for place, token in enumerate(source) if place not in hidden], 20)
        for size in (1, 2)
        for hidden in itertools.combinations(words, size)
    }
    # Another output has another token where the first one ends, too: its end is no token of it.
    flipping = [hidden for hidden, output in outputs.items() if output[: len(before)] != before]
    found = model.flip(SOURCE)
    hidden = tuple(words[[encoding.offsets[place][0] for place in words].index(unit.start)] for unit in found.hidden)
    assert len(hidden) == len(flipping[0])
    assert hidden in flipping
    written_again = "".join(model.text_model.reading.tokenizer.convert_ids_to_tokens(outputs[hidden]))
    assert (found.becomes or "").replace(" ", "") == written_again.replace(" ", "")
    with pytest.raises(BadOption, match="too many"):
        model.flip(SOURCE, to="good")


def test_a_run_explains_whole_outputs(model: Model, tmp_path: Path) -> None:
    lines = [{"text": SOURCE, "explain": OUTPUT}, {"text": "a fine plot", "explain": "bad", "foil": "good"}]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    for target in ("label", "predicted", OUTPUT):
        plan = RunPlan(str(tmp_path / "data.jsonl"), model, methods="saliency,occlusion", metrics="aopc", target=target)
        found = run(plan, tmp_path / target.replace(" ", "-"))
        assert found.errors.empty
        rows = found.explanations.to_dict("records")
        one = next(row for row in rows if row["text"] == SOURCE and row["method"] == "occlusion")
        expected = model.explain(SOURCE, "occlusion", None if target == "predicted" else OUTPUT)
        assert list(one["scores"]) == pytest.approx(expected.scores, abs=1e-6)
        assert len(one["input_ids"]) == len(one["tokens"])


def test_source_and_output_of_the_same_ids() -> None:
    """The encoder looks its words up first: vectors that differ for equal ids must not be mixed up."""
    model = make_model("bart", task="seq2seq", dtype=torch.float64, decoder_start_token_id=0, bos_token_id=0)
    encoding = model.encode("film")  # [CLS] film [SEP], and behind it [CLS]: the decoder gets [CLS] film [SEP], too
    film, end = encoding.input_ids[1], encoding.input_ids[2]
    row = find_method("input_x_gradient")
    found = explain_generation(model, encoding, [film, end], [None, None], row, {"reduce": "sum"})
    ids = torch.tensor([list(encoding.input_ids[:3])])
    looked_up = model.network.module.get_input_embeddings()
    read, written = (looked_up(ids).detach().requires_grad_() for _ in range(2))
    logits = model.network.module(inputs_embeds=read, decoder_inputs_embeds=written).logits[0]
    slopes = torch.autograd.grad(logits[1, end], [read, written])
    expected = [*(read * slopes[0]).sum(-1)[0].tolist(), *(written * slopes[1]).sum(-1)[0, :2].tolist()]
    assert found.scores[1][:5] == pytest.approx(expected, abs=1e-9)


def test_what_is_refused(model: Model) -> None:
    for verb in (model.explain, model.compare):
        with pytest.raises(WherefromError, match="reads one text"):
            verb((SOURCE, SOURCE), "saliency")
    with pytest.raises(BadOption, match="no pair or messages"):
        model.generate_and_explain([{"role": "user", "content": "film"}])
    chat: Any = [{"role": "user", "content": "film"}]
    with pytest.raises(BadOption, match="no pair or messages"):
        model.explain(chat, "saliency")
    with pytest.raises(EmptyText, match="output is empty"):
        model.generate_and_explain(SOURCE, continuation="")
    with pytest.raises(BadOption, match="given as text"):
        model.explain(SOURCE, "saliency", 3)
    with pytest.raises(WrongModel, match="generates text"):
        wherefrom.load("embedded").generate_and_explain(SOURCE)


def test_from_files_by_the_command_and_as_views(model: Model, tmp_path: Path) -> None:
    model.text_model.network.module.save_pretrained(tmp_path / "model")
    model.text_model.reading.tokenizer.save_pretrained(tmp_path / "model")
    arguments = ["generate", SOURCE, "--model", str(tmp_path / "model"), "--target", OUTPUT]
    result = CliRunner().invoke(app, [*arguments, "--json", "--html", str(tmp_path / "page.html")])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    expected = model.generate_and_explain(SOURCE, continuation=OUTPUT)
    assert data["task"] == "seq2seq"
    assert np.asarray(data["scores"]) == pytest.approx(np.asarray(expected.scores), rel=1e-4, abs=1e-4)
    assert 'data-step="2"' in (tmp_path / "page.html").read_text()
    expected.save(tmp_path / "one.json")
    assert Generation.load(tmp_path / "one.json") == expected
    shown = io.StringIO()
    print_generation(expected, console=Console(file=shown, width=100))
    assert "film" in shown.getvalue()


def test_a_model_that_only_sounds_like_one() -> None:
    _, pad, ends = CONFIGS["llama"]
    network = make_network("llama", task="causal_lm")
    with pytest.raises(WrongModel, match="no encoder and decoder"):
        TextModel.of(network, tokenizer(pad, ends), task=find_task("seq2seq")).encode(SOURCE)
