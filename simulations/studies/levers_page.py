"""The page of `fedrean study levers`: what each lever gains, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from server.report.figures import CLEAN, RELEASED, WARN, svg
from server.report.page import render
from server.report.table import cell
from simulations.studies.figures_of_cells import FIGURES
from simulations.studies.levers import OPEN, PUBLIC

Results = Mapping[str, Any]
SHOWN = ("diagnosis", "released", "signal", "reid", "retrained", "prd", "membership")


def header() -> list[str]:
    """Of the table."""
    return ["", "epsilon", "gain", *(FIGURES[key] for key in SHOWN), "seconds"]


def table(results: Results) -> list[list[str]]:
    """A row a variant; a cell may carry its interval after a space."""
    made = []
    for row in results["rows"]:
        if "figures" not in row:
            continue
        spent = row["spent"]["patient"]
        made.append([row["varies"]["variant"], "not bounded" if spent is None else f"{spent:.2f}",
                     cell(row.get("gain")), *(cell(row["figures"][key]) for key in SHOWN),
                     f"{row['seconds']:.0f}"])
    return made


def write_page(folder: Path, results: Results) -> Path:
    """Write levers.html."""
    return render("levers.html", folder / "levers.html", figure=_dots(results), header=header(),
                  rows=table(results), refused=results["refused"], command=results["command"],
                  problems=[f"{row['varies']['variant']}: {row['problem']}"
                            for row in results["rows"] if "problem" in row])


def _dots(results: Results) -> str:
    """Diagnosis on clean windows by variant, the first at the top."""
    rows = [row for row in results["rows"] if "figures" in row]
    figure = Figure(figsize=(8, 0.9 + 0.32 * max(1, len(rows))), layout="constrained")
    axes = figure.subplots()
    for at, row in enumerate(rows):
        leaf, name = row["figures"]["diagnosis"], row["varies"]["variant"]
        colour = {PUBLIC: WARN, OPEN: CLEAN}.get(name, RELEASED)
        if leaf["value"] is not None:
            axes.plot(leaf["value"], -at, "o", color=colour)
            if leaf["low"] is not None:
                axes.hlines(-at, leaf["low"], leaf["high"], color=colour)
            if name in (PUBLIC, OPEN):
                axes.axvline(leaf["value"], color=colour, lw=0.8, ls="--")
    axes.set_yticks([-at for at in range(len(rows))], [row["varies"]["variant"] for row in rows])
    axes.set(xlabel="diagnosis on clean windows, macro-AUROC")
    return svg(figure)
