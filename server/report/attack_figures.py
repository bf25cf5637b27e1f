"""Pictures of the attacks that `audit.attacks` chooses, by name, as inline SVG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from server.report.figures import CLEAN, RELEASED, WARN, svg

_COLOURS = {"clean": CLEAN, "released": RELEASED, "retrained": WARN}


def retraining(metrics: dict[str, Any]) -> str:
    """ReID against the number of anonymized windows that were collected of each patient."""
    collected = metrics["retraining"]["collected"]
    if not collected:
        return ""
    figure = Figure(figsize=(6, 3))
    axes = figure.subplots()
    leaves = [row["reid"] for row in collected.values()]
    _curve(axes, [int(n) for n in collected], leaves, "retrained", WARN)
    clean = metrics["clean"]["reid"]
    axes.axhline(clean["value"], color=CLEAN, lw=1, label="clean recordings")
    axes.axhline(clean["chance"], color="k", lw=0.8, ls=":", label="chance")
    axes.set(xlabel="anonymized windows collected of a patient", ylabel="re-identified windows",
             ylim=(-0.03, 1.03))
    axes.legend(frameon=False, fontsize=8)
    return svg(figure)


def identification(metrics: dict[str, Any]) -> str:
    """Of each embedding: cumulative match curves, and top 1 against the gallery's size."""
    protocol, encoders = next(iter(metrics["identification"].items()), ("", {}))
    if not encoders:
        return ""
    figure = Figure(figsize=(8, 2.7 * len(encoders)), layout="constrained")
    grid = figure.subplots(len(encoders), 2, squeeze=False)
    for (left, right), (encoder, pairs) in zip(grid, encoders.items(), strict=True):
        for name, row in pairs.items():
            left.plot(range(1, len(row["cmc"]) + 1), row["cmc"], ".-", label=name,
                      color=_COLOURS[name])
            _curve(right, [int(n) for n in row["by_gallery_size"]],
                   list(row["by_gallery_size"].values()), name, _COLOURS[name])
        sizes = [int(n) for n in row["by_gallery_size"]]
        right.plot(sizes, [1 / n for n in sizes], color="k", lw=0.8, ls=":", label="chance")
        left.xaxis.get_major_locator().set_params(integer=True)
        left.set(title=f"{encoder}, {protocol}", xlabel="rank k", ylabel="patient among k nearest",
                 ylim=(-0.03, 1.03))
        right.set(title="smaller galleries", xlabel="patients enrolled", ylabel="top 1",
                  ylim=(-0.03, 1.03))
        right.legend(frameon=False, fontsize=8)
    return svg(figure)


def _curve(axes: Axes, x: list[int], leaves: list[dict[str, Any]], label: str,
           colour: str) -> None:
    """Values on a logarithmic axis with their intervals."""
    axes.set_xscale("log")
    axes.minorticks_off()
    shown = x[:: 1 + len(x) // 9]  # numbers that were measured, as many as fit
    axes.set_xticks(shown, [f"{n:,}" for n in shown])
    axes.plot(x, [leaf["value"] for leaf in leaves], ".-", color=colour, label=label)
    if all(leaf["low"] is not None for leaf in leaves):
        axes.fill_between(x, [leaf["low"] for leaf in leaves], [leaf["high"] for leaf in leaves],
                          color=colour, alpha=0.15, lw=0)


PICTURES: dict[str, Callable[[dict[str, Any]], str]] = {
    "retraining": retraining, "identification": identification}


def pictures(metrics: dict[str, Any]) -> dict[str, str]:
    """The picture of each attack that has one and was made."""
    return {name: draw(metrics) for name, draw in PICTURES.items() if name in metrics}
