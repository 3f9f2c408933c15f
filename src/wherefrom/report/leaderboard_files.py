"""Leaderboards for papers and other programs: CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from wherefrom.benchmark.statistics import Standing
from wherefrom.benchmark.summary import Summary
from wherefrom.core.labels import visible

NAMES = {
    "aopc": "AOPC",
    "log_odds": "LOdds",
    "auprc": "AUPRC",
    "auroc": "AUROC",
    "rft": "RFT",
    "iou_f1": "IOU-F1",
    "token_f1": "token-F1",
}
COLUMNS = ["data", "metric", "better", "method", "mean", "low", "high", "standard_error", "examples", "rank"]
COLUMNS += ["less_best", "less_best_low", "less_best_high", "why"]


def metric_title(metric: str) -> str:
    """As papers write it."""
    name, colon, options = metric.partition(":")
    return NAMES.get(name, name.replace("_", " ")) + (f" ({options.replace(':', ', ')})" if colon else "")


def as_csv(summaries: Sequence[Summary]) -> str:
    """One row a data set, metric and method: everything the leaderboards say."""
    written = io.StringIO()
    out = csv.writer(written, lineterminator="\n")
    out.writerow(COLUMNS)
    for summary in summaries:
        for metric, standings in summary.boards.items():
            for standing in standings:
                around, behind = standing.interval or (None, None), standing.behind_interval or (None, None)
                head = [summary.name, metric, summary.better[metric], standing.method]
                out.writerow(
                    [
                        *head,
                        standing.mean,
                        *around,
                        standing.error,
                        standing.count,
                        standing.rank,
                        standing.behind,
                        *behind,
                        standing.why,
                    ]
                )
    return written.getvalue()


LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}"}
LATEX |= {"^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}


def latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in visible(text))


def as_latex(summaries: Sequence[Summary]) -> str:
    """A table for each data set (booktabs): means with half the width of their interval; the best bold, what is as good
    underlined.
    """
    return "\n".join(_latex_table(summary) for summary in summaries)


def _latex_table(summary: Summary) -> str:
    metrics = list(summary.boards)
    arrows = {"higher": r"$\uparrow$", "lower": r"$\downarrow$"}
    heads = [f"{latex(metric_title(metric))} {arrows[summary.better[metric]]}" for metric in metrics]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex(str(summary.manifest['model']['name']))} on {latex(summary.name)}"
        f" ({summary.examples} examples).}}",
        rf"\begin{{tabular}}{{l{'r' * (len(metrics) + 1)}}}",
        r"\toprule",
        " & ".join(["method", *heads, "rank"]) + r" \\",
        r"\midrule",
    ]
    boards = {
        metric: {standing.method: standing for standing in standings} for metric, standings in summary.boards.items()
    }
    for method, overall in zip(summary.ranks.methods, summary.ranks.overall, strict=True):
        cells = [_latex_cell(boards[metric].get(method)) for metric in metrics]
        lines.append(" & ".join([latex(method), *cells, "--" if overall is None else f"{overall:.1f}"]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _latex_cell(standing: Standing | None) -> str:
    if standing is None or standing.mean is None:
        return "--"
    half = (
        ""
        if standing.interval is None
        else rf" {{\scriptsize$\pm${(standing.interval.high - standing.interval.low) / 2:.3f}}}"
    )
    shown = f"${standing.mean:.3f}$"
    if standing.rank == 1 or standing.behind == 0:
        return (
            rf"\textbf{{{standing.mean:.3f}}}{half}"
            if standing.mean >= 0
            else rf"$\mathbf{{{standing.mean:.3f}}}${half}"
        )
    return (rf"\underline{{{shown}}}" if standing.as_good_as_the_best else shown) + half
