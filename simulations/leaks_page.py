"""The page of `fedrean link leaks`: a row for each thing a recipient may have, a column a token."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from server.report.figures import svg
from server.report.page import render
from server.report.table import cell
from simulations.both_leaks import ROWS
from simulations.token_risk import SYNTHETIC

Results = Mapping[str, Any]


def header(results: Results) -> list[str]:
    """Titles of `rows`."""
    return ["a recipient has", *results["tokens"]]


def rows(results: Results) -> list[list[str]]:
    """Chance to be rightly identified, with its interval; shares of those who are released."""
    return [[text, *(_share(of[name]["right"]) for of in results["tokens"].values())]
            for name, text in ROWS.items()]


def wrong(results: Results) -> list[list[str]]:
    """Share of people for whom somebody else is named."""
    return [[text, *(_share(of[name]["wrong"]) for of in results["tokens"].values())]
            for name, text in ROWS.items() if name in ("clean", "released", "both")]


def guesses(results: Results) -> list[list[str]]:
    """What the waveforms of a patient tell: who it is, sex and age band."""
    return [[version, *(cell(of[name]) for name in ("identity", "sex", "age"))]
            for version, of in results["guesses"].items()]


def write_page(folder: Path, results: Results) -> Path:
    """Write leaks.html."""
    return render("leaks.html", folder / "leaks.html", results=results, header=header(results),
                  rows=rows(results), wrong=wrong(results), guesses=guesses(results),
                  figure=_figure(results))


def _share(leaf: Mapping[str, Any]) -> str:
    """Enough digits for a chance of one in 100,000."""
    if not leaf["value"]:
        return "0"
    ends = "" if leaf["low"] is None else f" [{leaf['low']:.5f}, {leaf['high']:.5f}]"
    return f"{leaf['value']:.5f}{ends}"


def _figure(results: Results) -> str:
    """A panel a token; chances below one in 100,000 stand at the left end."""
    tokens = results["tokens"]
    figure = Figure(figsize=(9, 1 + 1.7 * len(tokens)), layout="constrained")
    for axes, (token, of) in zip(figure.subplots(len(tokens), 1, squeeze=False, sharex=True)
                                 .ravel(), tokens.items(), strict=True):
        for at, name in enumerate(reversed(ROWS)):
            leaf = of[name]["right"]
            axes.plot(max(1e-5, leaf["value"]), at, "o" if leaf["value"] >= 1e-5 else "<",
                      color="#b3412e" if name == "both" else "#0b6e99")
            if leaf["low"] is not None:
                axes.hlines(at, max(1e-5, leaf["low"]), max(1e-5, leaf["high"]), color="#8a8a8a")
        axes.set(xscale="log", xlim=(8e-6, 1.2), yticks=range(len(ROWS)),
                 title=f"token {token}: {SYNTHETIC}")
        axes.set_yticklabels(list(reversed(ROWS.values())), fontsize=7)
    figure.axes[-1].set_xlabel("chance that a released patient is identified")
    return svg(figure)
