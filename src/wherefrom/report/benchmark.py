"""Runs over data sets as a self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wherefrom.benchmark.recommendation import recommend
from wherefrom.benchmark.statistics import Curve, Energy, MethodCost, Ranks, Standing, question_of
from wherefrom.benchmark.summary import Disputed, Summary, ranks_over_data_sets
from wherefrom.catalogue import floor_method
from wherefrom.core.comparison import Rationale
from wherefrom.core.explanation import Explanation
from wherefrom.core.labels import visible
from wherefrom.core.statistics import Interval
from wherefrom.core.target import written_value
from wherefrom.errors import MissingExtra
from wherefrom.report.document import render_page
from wherefrom.report.figure import BLUE, GREEN, INK, ORANGE, PURPLE, label, logarithmic, new_axes, svg_of
from wherefrom.report.html import ExplanationView, view
from wherefrom.report.leaderboard_files import metric_title
from wherefrom.report.main_metrics import SHOWN_METRICS, main_metrics
from wherefrom.report.marks import MARKED_BY_PEOPLE, NOTHING_MARKED
from wherefrom.report.page_table import EMPTY, PageTable, ScoreCell, number
from wherefrom.report.recommendation import recommended, seconds_per_example
from wherefrom.report.wording import ARROWS, percent, predicts, visible_rows
from wherefrom.report.words import WordsView, words_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The best methods have a colour each; more colours than these could not be distinguished.
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#c94f7c", "#8a6d3b", "#3aa6b9", "#c9a227")
OPERATIONS = 8  # how many of the operations that won are listed
TEXT = 700  # how many characters of a disputed example are shown
SIDE_BY_SIDE = 8  # by how many methods a disputed example is shown
DISAGREE = 0.3  # below this mean correlation, methods count as disagreeing on an example


@dataclass(frozen=True)
class DisputedView:
    example: str
    agreement: str
    label: str
    prediction: str
    wrong: bool
    disagree: bool
    target: str
    marks: str  # what the boxes in its text are, or why there are none; empty where the data has no rationales
    views: list[tuple[str, ExplanationView]]


@dataclass(frozen=True)
class RunView:
    """One run, ready for the template, which only lays out."""

    summary: Summary
    title: str
    facts: list[tuple[str, str]]
    board: PageTable  # by a few metrics, one for each question that metrics put
    whole_board: PageTable | None  # by all metrics, where there are more
    details: list[tuple[str, str, PageTable]]  # metric, whether higher or lower is better, its table
    intervals: str  # svg
    curves: str | None
    cost: PageTable
    faithful_and_cheap: str | None  # svg
    cumulative: str | None
    agreement: str | None
    winners: list[tuple[str, int, list[tuple[str, int, str]]]]
    words: list[WordsView]  # class by class
    disputed: list[DisputedView]
    labels: list[str]  # of these examples
    counted: dict[str, int]  # how many of them are wrong, and on how many methods disagree
    errors: list[tuple[str, str]]
    more_errors: int
    provenance: list[tuple[str, str]]


def check_extra() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as missing:
        raise MissingExtra("The report", "bench") from missing


def report_page(summaries: Sequence[Summary], energy: Energy | None = None) -> str:
    """One page of one or several runs."""
    check_extra()
    ranks = ranks_over_data_sets(summaries)
    colours = _colours(ranks.methods)
    models = dict.fromkeys(str(summary.manifest["model"]["name"]) for summary in summaries)
    return render_page(
        "benchmark.html",
        styles=("text.css", "page.css", "benchmark.css"),
        scripts=("benchmark.js",),
        title=f"Which explanation to trust: {visible(', '.join(models))}",
        recommended=recommended(recommend([summary.redrawn for summary in summaries]), seconds_per_example(summaries)),
        headline=_headline(summaries),
        ranks=_rank_table(ranks),
        data_sets=len(summaries),
        runs=[_view(summary, energy, colours) for summary in summaries],
        energy=energy,
    )


def _headline(summaries: Sequence[Summary]) -> list[tuple[str, str, str]]:
    """The numbers on top of the page: (number, what it is, a remark)."""
    total = {
        name: sum(summary.counts.get(name, 0) for summary in summaries)
        for name in ("examples", "asked", "distinct", "rows", "seconds")
    }
    saved = 1 - total["rows"] / total["asked"] if total["asked"] else 0.0
    whole = f"{len(summaries)} data sets" if len(summaries) > 1 else visible(summaries[0].name)
    broken = sum(len({row["example"] for row in summary.errors}) for summary in summaries)
    return [
        (
            f"{int(total['examples']):,}",
            "examples",
            f"{broken} of them could not be explained" if broken else f"of {whole}",
        ),
        (
            f"{int(total['asked']):,}",
            "questions asked",
            f"{int(total['distinct']):,} distinct, {int(total['rows']):,} rows ran",
        ),
        (percent(saved), "of the questions saved", "asked before, or answered by another pass"),
        (_duration(total["seconds"]), "of work", "explaining, asking and grading, on all workers"),
    ]


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _colours(methods: Sequence[str]) -> dict[str, str]:
    metric_title = [method for method in methods if method != floor_method()][: len(COLOURS)]
    return dict(zip(metric_title, COLOURS, strict=False)) | {floor_method(): INK}


def _rank_table(ranks: Ranks) -> PageTable:
    columns = [
        ("average", "mean of the ranks by all metrics"),
        *((metric_title(metric), "mean rank over data sets") for metric in ranks.metrics),
    ]
    rows = []
    for method, overall, row in zip(ranks.methods, ranks.overall, ranks.by_metric, strict=True):
        rows.append((visible(method), [_rank_cell(value, len(ranks.methods)) for value in (overall, *row)]))
    return PageTable(columns, rows)


def _rank_cell(rank: float | None, count: int) -> ScoreCell:
    if rank is None:
        return EMPTY
    return ScoreCell(f"{rank:.1f}", rank, strength=_strength(rank, count))


def _strength(rank: float | None, count: int) -> float:
    """How strongly a rank is coloured: the best fully, the lower half not at all."""
    return 0.0 if rank is None or count < 2 else max(0.0, 1 - 2 * (rank - 1) / (count - 1))


def _view(summary: Summary, energy: Energy | None, colours: Mapping[str, str]) -> RunView:
    order = summary.ranks.methods
    examples = _examples(summary, order)
    return RunView(
        summary=summary,
        title=visible(summary.name),
        facts=_facts(summary),
        board=_board(summary, order, shown_metrics(summary)),
        whole_board=_board(summary, order, list(summary.boards)) if len(summary.boards) > SHOWN_METRICS else None,
        details=[
            (metric_title(metric), summary.better[metric], _detail(standings))
            for metric, standings in summary.boards.items()
        ],
        intervals=_interval_figure(summary, colours),
        curves=_curve_figure(summary.curves, summary.better, order, colours) if summary.curves else None,
        cost=_cost_table(summary.costs, energy),
        faithful_and_cheap=_faithful_and_cheap(summary, colours),
        cumulative=_cumulative_figure(summary.costs, colours) if summary.costs else None,
        agreement=_agreement_figure(summary, order) if len(order) > 1 else None,
        winners=_winners(summary),
        words=[words_view(words) for words in summary.words],
        disputed=examples,
        labels=sorted({example.label for example in examples if example.label}),
        counted={
            "wrong": sum(example.wrong for example in examples),
            "disagree": sum(example.disagree for example in examples),
        },
        errors=[
            (visible(str(row["where"] or row["example"])), visible(str(row["error"]))) for row in summary.errors[:20]
        ],
        more_errors=max(0, len(summary.errors) - 20),
        provenance=_provenance(summary),
    )


def _target(explanation: Explanation) -> str:
    """What is explained; of a regression model with the value that it predicts."""
    value = explanation.value is not None
    return f"{explanation.target} ({predicts(explanation)})" if value else explanation.target


def _examples(summary: Summary, order: Sequence[str]) -> list[DisputedView]:
    return [
        DisputedView(
            visible(disputed.example),
            f"{disputed.agreement:+.2f}".replace("-", "−"),
            visible(disputed.label or ""),
            visible(disputed.prediction),
            bool(disputed.wrong),
            disputed.agreement < DISAGREE,
            visible(_target(disputed.explanations[0])),
            _marks(disputed),
            [
                (visible(e.method), view(_short(e), special=False, rationale=_begun(disputed)))
                for e in _side_by_side(disputed.explanations, order)
            ],
        )
        for disputed in summary.disputed
    ]


def _facts(summary: Summary) -> list[tuple[str, str]]:
    facts = [("examples", f"{summary.examples:,}"), ("level", str(summary.plan["level"]))]
    facts.append(("explained", str(summary.plan["target"])))
    if summary.values is not None:
        least, mean, largest = map(written_value, summary.values)
        facts.append(("the model predicts", f"{least} to {largest}, {mean} on average"))
    if summary.accuracy is not None:
        facts.append(("the model is right in", percent(summary.accuracy)))
    if summary.macro_f1 is not None:
        facts.append(("its macro F1", f"{summary.macro_f1:.3f}"))
    if summary.counts.get("nothing_predicted"):
        facts.append(("no label is predicted for", f"{summary.counts['nothing_predicted']:,.0f} texts, left out"))
    if summary.counts.get("unanswerable"):
        left_out = "left out of the metrics that look for it"
        facts.append(("questions without an answer", f"{summary.counts['unanswerable']:,.0f}, {left_out}"))
    for method, count in summary.gaps.items():
        facts.append((f"{visible(method)} does not add up for", f"{count:,} of its explanations: do not rely on them"))
    if not summary.finished:
        facts.append(("not finished", "some parts are missing; the numbers are those of the others"))
    return facts


def shown_metrics(summary: Summary) -> list[str]:
    """The metrics of the first table of a run."""
    return main_metrics({metric: question_of(metric) for metric in summary.boards})


def _board(summary: Summary, order: Sequence[str], metrics: Sequence[str]) -> PageTable:
    columns = [("rank", "mean of the ranks by all metrics")]
    columns += [
        (f"{metric_title(metric)} {ARROWS[summary.better[metric]]}", f"{summary.better[metric]} is better")
        for metric in metrics
    ]
    boards = {metric: {standing.method: standing for standing in summary.boards[metric]} for metric in metrics}
    overall = dict(zip(summary.ranks.methods, summary.ranks.overall, strict=True))
    rows = []
    for method in order:
        cells = [_rank_cell(overall[method], len(order))]
        cells += [
            _score_cell(by_method.get(method), len(order), _scale(by_method.values())) for by_method in boards.values()
        ]
        rows.append((visible(method), cells))
    return PageTable(columns, rows)


def _scale(standings: Iterable[Standing]) -> float:
    return max((abs(standing.mean) for standing in standings if standing.mean is not None), default=1.0)


def _score_cell(standing: Standing | None, count: int, scale: float) -> ScoreCell:
    if standing is None or standing.mean is None:
        return ScoreCell("–", detail=visible(standing.why) if standing is not None else "", classes="none")
    first = standing.rank == 1 or (standing.rank is not None and standing.behind == 0)
    near = "near" if standing.as_good_as_the_best else ""
    classes = "best" if first else near
    margin = (
        "" if standing.interval is None else f"95%: {_between(standing.interval, scale)}, {standing.count} examples"
    )
    return ScoreCell(number(standing.mean, scale), standing.mean, margin, classes, _strength(standing.rank, count))


def _detail(standings: Sequence[Standing]) -> PageTable:
    columns = [("rank", ""), ("mean", ""), ("95% interval", "bootstrap over examples"), ("standard error", "")]
    columns += [
        ("less the best", "mean difference to the best method"),
        ("95% interval of it", "paired: on the same examples"),
        ("examples", ""),
    ]
    rows, scale = [], _scale(standings)
    for standing in standings:
        if standing.mean is None:
            rows.append(
                (
                    visible(standing.method),
                    [EMPTY] * 6 + [ScoreCell("0", 0.0, visible(standing.why))],
                )
            )
            continue
        rows.append(
            (
                visible(standing.method),
                [
                    ScoreCell(f"{standing.rank:g}", standing.rank),
                    ScoreCell(number(standing.mean, scale), standing.mean),
                    _interval_cell(standing.interval, scale),
                    EMPTY if standing.error is None else ScoreCell(number(standing.error, scale), standing.error),
                    EMPTY if standing.behind is None else ScoreCell(_signed(standing.behind, scale), standing.behind),
                    _interval_cell(standing.behind_interval, scale, "near" if standing.as_good_as_the_best else ""),
                    ScoreCell(str(standing.count), standing.count),
                ],
            )
        )
    return PageTable(columns, rows)


def _signed(value: float, scale: float) -> str:
    return ("+" if value > 0 else "") + number(value, scale)


def _between(interval: Interval, scale: float) -> str:
    return f"{number(interval.low, scale)} to {number(interval.high, scale)}"


def _interval_cell(interval: Interval | None, scale: float, classes: str = "") -> ScoreCell:
    return EMPTY if interval is None else ScoreCell(_between(interval, scale), interval.low, classes=classes)


def _cost_table(costs: Sequence[MethodCost], energy: Energy | None) -> PageTable:
    columns = [
        ("ms per example", "on its own, with nothing shared"),
        ("forward rows", "per example"),
        ("backward rows", "per example"),
    ]
    columns += [("seconds", "for all examples")]
    if energy is not None:
        columns += [("Wh", ""), ("g CO2e", "")]
    rows = []
    for cost in costs:
        values = [1000 * cost.per_example, cost.forwards, cost.backwards, cost.seconds]
        if cost.kilowatt_hours is not None and cost.grams is not None:
            values += [1000 * cost.kilowatt_hours, cost.grams]
        rows.append((visible(cost.method), [ScoreCell(_amount(value), value) for value in values]))
    return PageTable(columns, rows)


def _amount(value: float) -> str:
    """As many decimals as numbers of this size need."""
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _winners(summary: Summary) -> list[tuple[str, int, list[tuple[str, int, str]]]]:
    """(method, how many different operations, [(operation, count, share as a width)])"""
    winners = []
    for method, counted in summary.winners.items():
        total = sum(count for _, count in counted)
        listed = [(visible(name), count, f"{count / total:.3f}") for name, count in counted[:OPERATIONS]]
        winners.append((visible(method), len(counted), listed))
    return winners


def _side_by_side(explanations: Sequence[Explanation], order: Sequence[str]) -> list[Explanation]:
    """The explanations of the best methods, in the order of their ranks."""
    known = {explanation.method: explanation for explanation in explanations}
    return [known[method] for method in order if method in known and method != floor_method()][:SIDE_BY_SIDE]


def _cut(explanation: Explanation) -> int | None:
    """How many characters of its text, and of its pair, are shown; None for all."""
    if len(explanation.text) + len(explanation.pair or "") <= TEXT:
        return None
    return TEXT // (2 if explanation.pair else 1)


def _begun(disputed: Disputed) -> Rationale | None:
    """What people marked in the part of a long text that is shown."""
    cut = _cut(disputed.explanations[0])
    if disputed.rationale is None or cut is None:
        return disputed.rationale
    first, second = (
        tuple((start, min(end, cut)) for start, end in spans if start < cut) for spans in disputed.rationale
    )
    return first, second


def _marks(disputed: Disputed) -> str:
    if disputed.rationale is None:
        return ""
    if not any(disputed.rationale):
        return NOTHING_MARKED
    return MARKED_BY_PEOPLE if any(_begun(disputed) or ()) else "what people marked is after the part that is shown"


def _short(explanation: Explanation) -> Explanation:
    """The explanation of the beginning of a long text, short enough to be shown beside others."""
    cut = _cut(explanation)
    if cut is None:
        return explanation
    places = enumerate(zip(explanation.offsets, explanation.segment, strict=True))
    keep = [place for place, ((_, end), part) in places if part < 0 or end <= cut]
    return replace(
        explanation,
        text=explanation.text[:cut] + "…",
        pair=None if explanation.pair is None else explanation.pair[:cut] + "…",
        tokens=tuple(explanation.tokens[i] for i in keep),
        scores=tuple(explanation.scores[i] for i in keep),
        offsets=tuple(explanation.offsets[i] for i in keep),
        segment=tuple(explanation.segment[i] for i in keep),
        cut=0,
        layers=None,
    )


def _provenance(summary: Summary) -> list[tuple[str, str]]:
    """How the numbers of a run were made."""
    manifest = summary.manifest
    rows = [
        ("data", str(summary.plan["data"])),
        ("model", f"{manifest['model']['name']} ({manifest['model']['fingerprint']})"),
        *(("compared with", str(name)) for name in summary.plan.get("against", ())),
        ("methods", ", ".join(summary.plan["methods"])),
        ("metrics", ", ".join(summary.plan["metrics"])),
        ("software", ", ".join(f"{name} {version}" for name, version in manifest["configuration"]["versions"].items())),
        ("started", str(manifest.get("started", ""))),
        ("machine", str(manifest.get("machine", ""))),
        ("configuration", str(manifest["hash"])[:16]),
    ]
    return visible_rows(rows)


# Figures


def _interval_figure(summary: Summary, colours: Mapping[str, str]) -> str:
    """Every metric's means with their intervals, the best on top."""
    boards = {
        metric: [standing for standing in standings if standing.mean is not None]
        for metric, standings in summary.boards.items()
    }
    boards = {metric: standings for metric, standings in boards.items() if standings} or {"": []}
    columns = 2 if len(boards) == 4 else min(3, len(boards))
    rows = -(-len(boards) // columns)
    most = max(len(standings) for standings in boards.values())
    figure, axes = new_axes(
        rows, columns, width=3.7 * columns, height=rows * (0.75 + 0.19 * max(4, most)), share_y=False
    )
    for panel, (metric, standings) in zip(axes, boards.items(), strict=False):
        _whiskers(panel, standings, colours)
        panel.set_title(
            f"{label(metric_title(metric))} {ARROWS[summary.better[metric]]}" if metric else "nothing is defined",
            parse_math=False,
        )
    for panel in axes[len(boards) :]:
        panel.set_visible(False)
    return svg_of(figure, "Means of every method by every metric, with their 95% intervals")


def _whiskers(axes: Axes, standings: Sequence[Standing], colours: Mapping[str, str]) -> None:
    for place, standing in enumerate(standings):
        assert standing.mean is not None
        colour = colours.get(standing.method, INK)
        alpha = 1.0 if standing.method in colours else 0.55
        if standing.interval is not None:
            axes.plot(
                standing.interval, [place, place], color=colour, alpha=alpha, linewidth=2.2, solid_capstyle="round"
            )
        full = standing.as_good_as_the_best or place == 0
        axes.plot(
            [standing.mean],
            [place],
            marker="o",
            markersize=5,
            color=colour,
            alpha=alpha,
            markerfacecolor=colour if full else "white",
        )
    axes.set_yticks(
        range(len(standings)), [label(standing.method) for standing in standings], fontsize=8, parse_math=False
    )
    axes.invert_yaxis()
    axes.tick_params(axis="x", labelsize=8)


def _curve_figure(
    curves: Mapping[str, Mapping[str, Curve]],
    better: Mapping[str, str],
    order: Sequence[str],
    colours: Mapping[str, str],
) -> str:
    figure, axes = new_axes(1, len(curves), width=max(5.6, 5.2 * len(curves)), height=3.7, share_y=False)
    for panel, (metric, lines) in zip(axes, curves.items(), strict=True):
        for method in reversed(order):  # the best on top
            if method in lines:
                _line(panel, lines[method].percent, lines[method].means, method, colours)
        panel.set_title(f"{label(metric_title(metric))}: {better[metric]} is better", parse_math=False)
        panel.set_xlabel("most important units hidden, %")
    axes[0].set_ylabel("effect")
    _legend(axes, figure)
    return svg_of(figure, "Perturbation curves: the effect of hiding more and more of the units ranked highest")


def _line(axes: Axes, across: Sequence[float], up: Sequence[float], method: str, colours: Mapping[str, str]) -> None:
    if method == floor_method():
        axes.plot(across, up, color=INK, linestyle="--", linewidth=1.4, label=method)
    elif method in colours:
        axes.plot(across, up, color=colours[method], linewidth=1.9, label=method)
    else:
        axes.plot(across, up, color=INK, alpha=0.22, linewidth=1.0, label="_others")


def _legend(axes: Sequence[Axes], figure: Figure) -> None:
    handles, labels = axes[0].get_legend_handles_labels()
    shown = list(zip(handles, labels, strict=True))[::-1]
    legend = figure.legend(
        [handle for handle, _ in shown],
        [label(name) for _, name in shown],
        loc="outside right upper",
        frameon=False,
        labelcolor=INK,
        fontsize=8.5,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # a $ in a name is a $


def _cumulative_figure(costs: Sequence[MethodCost], colours: Mapping[str, str]) -> str:
    figure, axes = new_axes(1, 1, width=8.6, height=3.6)
    for cost in costs:
        across, up = [0, *cost.examples], [0.0, *cost.seconds_so_far]
        _line(axes[0], across, up, cost.method, colours)
    axes[0].set_yscale(
        "symlog", linthresh=max(min((cost.seconds for cost in costs if cost.seconds > 0), default=1.0), 1e-9)
    )
    axes[0].set_xlabel("examples explained")
    axes[0].set_ylabel("seconds, cumulative")
    _legend(axes, figure)
    return svg_of(figure, "Seconds that each method took for the examples so far")


def _main_metric(summary: Summary) -> str | None:
    """The metric that represents faithfulness: the first that erases units, or else the first that has values."""
    known = [metric for metric, board in summary.boards.items() if any(standing.mean is not None for standing in board)]
    erasing = [metric for metric in known if question_of(metric) == "erasure"]
    return next(iter(erasing or known), None)


def _faithful_and_cheap(summary: Summary, colours: Mapping[str, str]) -> str | None:
    """One dot a method: what it costs, how faithful it is, with the interval of that; better is always up. A dotted
    line joins the methods that no cheaper one surpasses.
    """
    metric = _main_metric(summary)
    seconds = {cost.method: cost.per_example for cost in summary.costs}
    shown = [
        (1000 * seconds[standing.method], standing.mean, standing)
        for standing in (summary.boards[metric] if metric else ())
        if standing.mean is not None and seconds.get(standing.method, 0) > 0
    ]
    if metric is None or len(shown) < 2:
        return None
    figure, (axes,) = new_axes(1, 1, width=8.6, height=4.3)
    logarithmic(axes)
    higher = summary.better[metric] == "higher"
    front: list[tuple[float, float]] = []
    for across, up, standing in sorted(shown, key=lambda dot: (dot[0], dot[1] if not higher else -dot[1])):
        colour = INK if standing.method == floor_method() else colours.get(standing.method, INK)
        faint = 1.0 if standing.method in colours else 0.6
        if standing.interval is not None:
            axes.plot([across] * 2, standing.interval, color=colour, alpha=faint, linewidth=2, solid_capstyle="round")
        axes.plot([across], [up], "o", markersize=7, color=colour, alpha=faint)
        if not front or (up > front[-1][1] if higher else up < front[-1][1]):
            front.append((across, up))
    axes.plot(*zip(*front, strict=True), color=INK, alpha=0.5, linewidth=1.2, linestyle=":", zorder=0)
    axes.margins(0.09, 0.08)
    if not higher:
        axes.invert_yaxis()
    _name_dots(axes, [(across, up, label(standing.method)) for across, up, standing in shown])
    axes.set_xlabel("milliseconds an example, on its own (logarithmic)")
    axes.set_ylabel(f"{metric_title(metric)} {ARROWS[summary.better[metric]]}", parse_math=False)
    return svg_of(figure, f"{metric_title(metric)} of every method against its milliseconds an example")


def _name_dots(axes: Axes, dots: Sequence[tuple[float, float, str]]) -> None:
    """A name beside every dot, moved up or down where it would lie on another."""
    axes.get_figure().draw_without_rendering()  # type: ignore[union-attr]  # so that places on the paper are known
    to_paper = axes.transData.transform
    taken: list[tuple[float, float, float]] = []  # from and to across, and how high
    high = 11.0 * axes.get_figure().dpi / 72  # type: ignore[union-attr]
    right = axes.bbox.x1
    for across, up, name in sorted(dots, key=lambda dot: -to_paper(dot[:2])[1]):
        x, y = to_paper((across, up))
        wide = 0.62 * 8.5 * len(name) * axes.get_figure().dpi / 72  # type: ignore[union-attr]
        to_left = x + wide + high > right
        start = x - wide - high / 2 if to_left else x + high / 2
        place = y
        while any(abs(place - other) < high and start < end and begin < start + wide for begin, end, other in taken):
            place -= high / 4
        taken.append((start, start + wide, place))
        axes.annotate(
            name,
            (across, up),
            xytext=(-6 if to_left else 6, (place - y) * 72 / axes.get_figure().dpi),  # type: ignore[union-attr]
            textcoords="offset points",
            ha="right" if to_left else "left",
            va="center",
            fontsize=8.5,
            color=INK,
            parse_math=False,
        )


def _agreement_figure(summary: Summary, order: Sequence[str]) -> str:
    """A heat map with the methods as they rank."""
    places = [summary.agreement.methods.index(method) for method in order]
    matrix = summary.agreement.matrix[places][:, places]
    size = max(3.6, 0.36 * len(order) + 1.8)
    figure, axes = new_axes(1, 1, width=size + 0.9, height=size)
    panel = axes[0]
    panel.grid(visible=False)
    shown = panel.pcolormesh(matrix, cmap="PuOr", vmin=-1, vmax=1, edgecolors="face", linewidth=0.2)
    middle = [place + 0.5 for place in range(len(order))]
    panel.set_xticks(middle, [label(method) for method in order], rotation=90, fontsize=8, parse_math=False)
    panel.set_yticks(middle, [label(method) for method in order], fontsize=8, parse_math=False)
    panel.invert_yaxis()
    panel.set_aspect("equal")
    panel.tick_params(length=0)
    if len(order) <= 26:
        for row in range(len(order)):
            for column in range(len(order)):
                value = matrix[row, column]
                if math.isfinite(value):
                    ink = "white" if abs(value) > 0.6 else "#222222"
                    panel.text(
                        column + 0.5, row + 0.5, f"{100 * value:.0f}", ha="center", va="center", fontsize=6.5, color=ink
                    )
    bar = figure.colorbar(shown, ax=panel, shrink=0.6, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=INK, labelsize=8)
    bar.set_label("Spearman's correlation, mean over examples", fontsize=8.5, color=INK)
    return svg_of(figure, "How alike every two methods rank the units of a text")
