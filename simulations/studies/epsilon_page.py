"""The page of `fedrean study epsilon`: epsilon on the x-axis, diagnosis and leakage above it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from server.report.figures import CLEAN, svg
from server.report.page import render
from server.report.table import cell
from simulations.studies.epsilon import lines
from simulations.studies.figures_of_cells import FIGURES
from simulations.studies.page import look

Row = Mapping[str, Any]
PANELS = ("diagnosis", "released", "signal", "reid", "retrained", "membership")
SHOWN = ("diagnosis", "released", "signal", "reid", "retrained", "prd", "membership")
_GAP = 2.5  # times the largest epsilon, where infinity is drawn


def header() -> list[str]:
    """Of the table."""
    return ["", "epsilon", "spent per patient", "lower bound", *(FIGURES[key] for key in SHOWN),
            "seconds"]


def table(results: Mapping[str, Any]) -> list[list[str]]:
    """A row a run; a cell may carry its interval after a space."""
    made = []
    for name, rows in lines(results["rows"]).items():
        for row in rows:
            seed = f" seed={row['varies']['seed']}" if "seed" in row["varies"] else ""
            spent = row["spent"]
            made.append([name + seed, _epsilon(row), _bounded(spent["patient"]),
                         "-" if spent["lower"] is None else f"{spent['lower']:.2f}",
                         *(cell(row["figures"][key]) for key in SHOWN), f"{row['seconds']:.0f}"])
    return made


def write_page(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write epsilon.html."""
    return render("epsilon.html", folder / "epsilon.html", figure=_panels(results["rows"]),
                  header=header(), rows=table(results), refused=results["refused"],
                  command=results["command"],
                  problems=[f"{row['varies']}: {row['problem']}" for row in results["rows"]
                            if "problem" in row],
                  notes=sorted({f"{name}: {row['noise']}" for name, rows in
                                lines(results["rows"]).items() for row in rows}))


def _epsilon(row: Row) -> str:
    asked = _asked(row)
    return "inf" if math.isinf(asked) else f"{asked:g}"


def _asked(row: Row) -> float:
    """Infinity is null in JSON."""
    return math.inf if row["asked"] is None else float(row["asked"])


def _bounded(value: float | None) -> str:
    return "not bounded" if value is None else f"{value:.2f}"


def _panels(rows: Sequence[Row]) -> str:
    """One panel a figure, one line for everything that varies but epsilon and seed."""
    groups = lines(rows)
    finite = sorted({_asked(row) for of in groups.values() for row in of} - {math.inf})
    end = _GAP * (finite[-1] if finite else 1.0)
    drawn = Figure(figsize=(9, 7.5), layout="constrained")
    grid = drawn.subplots(3, 2).ravel()
    for axes, key in zip(grid, PANELS, strict=True):
        for number, (name, of) in enumerate(groups.items()):
            _line(axes, of, key, number, end, name)
        chance = next((row["figures"][key]["chance"] for of in groups.values() for row in of
                       if row["figures"][key]["chance"] is not None), None)
        if chance is not None:
            axes.axhline(chance, color="k", lw=0.8, ls=":")
        if key in ("reid", "retrained"):
            clean = [row["figures"]["clean_reid"]["value"] for of in groups.values() for row in of]
            axes.axhline(np.nanmean([c for c in clean if c is not None] or [np.nan]), color=CLEAN,
                         lw=1.2, ls="--")
        axes.set_xscale("log")
        axes.set_xticks([*finite, end], [*(f"{value:g}" for value in finite), "∞"], minor=False)
        axes.minorticks_off()
        axes.set(title=FIGURES[key], xlabel="epsilon asked for")
        axes.set_ylim(-0.03, 1.03)
    grid[0].legend(frameon=False, fontsize=8, loc="best")
    return svg(drawn)


def _line(axes: Axes, rows: Sequence[Row], key: str, number: int, end: float, name: str) -> None:
    """Runs as points with their 95 % intervals, a little apart; the line joins their means."""
    mark, colour = look(number)
    at: dict[float, list[float]] = {}
    for row in rows:
        leaf, epsilon = row["figures"][key], min(_asked(row), end)
        if leaf["value"] is None or math.isnan(leaf["value"]):
            continue
        x = epsilon * 1.03**number
        at.setdefault(x, []).append(leaf["value"])
        axes.plot(x, leaf["value"], mark, color=colour, ms=5)
        if leaf["low"] is not None and leaf["high"] is not None:
            axes.vlines(x, leaf["low"], leaf["high"], color=colour, lw=1)
    axes.plot(list(at), [float(np.mean(values)) for values in at.values()], "-", color=colour,
              lw=1.2, marker=mark, ms=4, label=name)
