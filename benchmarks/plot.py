"""Results as a picture: a bar per technique and case, times the plain query's; for look-ups, milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import Result, by_case

LOGARITHMIC = 10  # where the highest bar is so many times the lowest
COLUMNS = 3  # pictures beside each other
BAR_HEIGHT = 0.23  # inches


class NoPlot(Exception):
    """The package that draws is not there."""


def require() -> Any:
    """Matplotlib, drawing to files. NoPlot where it is not installed: said before hours are spent on measuring."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise NoPlot("--plot needs matplotlib: pip install matplotlib") from None
    return pyplot


def plot(results: Sequence[Result], file: Path) -> None:
    """Draws one picture per case into `file`. Dashed: the plain query."""
    pyplot = require()
    cases = {
        key: drawn for key, group in by_case(results).items() if (drawn := [each for each in group if _value(each)])
    }
    if not cases:
        return
    columns = min(COLUMNS, len(cases))
    rows = -(-len(cases) // columns)
    height = 1 + BAR_HEIGHT * max(len(group) for group in cases.values())
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.5 * columns, height * rows), squeeze=False)
    for place in axes.flat[len(cases) :]:
        place.axis("off")
    for place, ((experiment, label), group) in zip(axes.flat, cases.items(), strict=False):
        values = [_value(each) for each in group]
        colours = [_colour(each.technique) for each in group]
        bars = place.barh([each.technique for each in group], values, color=colours)
        place.bar_label(bars, fmt="%.3g", padding=2, fontsize=7)
        place.invert_yaxis()
        place.tick_params(labelsize=8)
        place.margins(x=0.12)
        if max(values) > LOGARITHMIC * min(values):
            place.set_xscale("log")
            place.xaxis.set_major_formatter("{x:g}")
            place.xaxis.set_minor_formatter("")
        asked = any(each.p50_ms is not None for each in group)
        if not asked:
            place.axvline(1, color="black", linestyle="--", linewidth=0.8)
        place.set_title(f"{experiment} {label}", fontsize=10)
        place.set_xlabel("p50, ms" if asked else "times the first", fontsize=8)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _value(result: Result) -> float:
    return result.p50_ms or result.ratio or 0.0


def _colour(technique: str) -> str:
    if technique.startswith("auto"):
        return "tab:red"
    if technique in ("off", "inject", "defer", "stage", "lazy"):
        return "tab:orange"
    return "tab:gray" if technique == "Baseline" else "tab:blue"
