"""The page of `fedrean study linkage`: the paper's tables beside ours, and its figures by shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from server.report.figures import svg
from server.report.page import render
from simulations.link_risk import SYNTHETIC
from simulations.studies.linkage import (
    FEW_ZIP3,
    table_non_unique,
    table_risk,
    table_superset,
)
from simulations.studies.linkage_paper import TIMES

RISK_HEADER = ("token", "re-identified", "paper", "diff %", "unblinded", "paper", "diff %")
SUPERSET_HEADER = ("people", *(text for k in TIMES for text in (f"{k}x", "paper", "diff %")))
NON_UNIQUE_HEADER = ("people", *(text for t in "ABCD" for text in (t, "paper", "diff %")))
# Panel -> (title, lines: label -> prefix and suffix of the cells).
PANELS = {
    "three states (Figure 2)": {t: ("tristate", t) for t in "ABCDEF"},
    "national (Figure 3)": {t: ("national", t) for t in "AB"},
    "two tokens (Figure 4)": {"A": ("tristate", "A"), "B": ("tristate", "B"),
                              "A and B": ("two", "A+B")},
    f"{FEW_ZIP3} of 74 3-digit ZIPs (Figure 5)": {
        "A, 74": ("tristate", "A"), "A, few": ("few_zip3", "A"),
        "B, 74": ("tristate", "B"), "B, few": ("few_zip3", "B")},
    "no year of birth (Figure 6)": {
        "A": ("tristate", "A"), "A, no year": ("no_year", "A"),
        "B": ("tristate", "B"), "B, no year": ("no_year", "B")},
}


def write_page(folder: Path, results: dict[str, Any]) -> Path:
    """Write linkage.html."""
    return render("linkage.html", folder / "linkage.html", results=results,
                  panels=_panels(results), tables=tables(results))


def tables(results: dict[str, Any]) -> dict[str, tuple[tuple[str, ...], list[list[str]]]]:
    """Title -> header and rows."""
    return {
        "Table 1: 25 million people of three states, percent": (RISK_HEADER, table_risk(results)),
        "Table 2: token B, national, re-identified percent by size of the register": (
            SUPERSET_HEADER, table_superset(results)),
        "Table 3: percent whose token somebody else has": (NON_UNIQUE_HEADER,
                                                           table_non_unique(results))}


def _panels(results: dict[str, Any]) -> str:
    figure = Figure(figsize=(9, 8.4), layout="constrained")
    grid = figure.subplots(3, 2).ravel()
    for axes, (title, lines) in zip(grid, PANELS.items(), strict=False):
        _panel(axes, results, lines)
        axes.set_title(f"{title}\n{SYNTHETIC}", fontsize=8)
    grid[-1].axis("off")
    return svg(figure)


def _panel(axes: Axes, results: dict[str, Any], lines: dict[str, tuple[str, str]]) -> None:
    for number, (label, (prefix, suffix)) in enumerate(lines.items()):
        points = sorted((cell["people"], cell["reidentified"])
                        for name, cell in results["cells"].items()
                        if name.startswith(f"{prefix}-") and name.endswith(f"-{suffix}")
                        and cell["reidentified"] > 0)
        if points:
            axes.plot(*zip(*points, strict=True), "o-", ms=3, lw=1, color=f"C{number}",
                      label=label)
    axes.set(xscale="log", yscale="log", xlabel="people", ylabel="re-identified, percent")
    if axes.lines:
        axes.legend(frameon=False, fontsize=8)
