"""Figures of the report, as inline SVG."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from common.ecg.labels import decided
from common.protocol import ARRHYTHMIA_CLASSES
from server.bundles import Bundles

matplotlib.rcParams.update({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "fedrean",
                            "axes.spines.top": False, "axes.spines.right": False})
CLEAN, RELEASED, WARN = "#8a8a8a", "#0b6e99", "#b3412e"


def svg(figure: Figure) -> str:
    """The figure as an inline element."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg"):]


def trade_off(metrics: dict[str, Any]) -> str:
    """Re-identification against utility: lower right is better."""
    figure = Figure(figsize=(6, 3.4))
    axes = figure.subplots()
    clean, rean = metrics["clean"], metrics["anonymizers"]["rean"]
    points = [("clean", clean["reid"], clean, CLEAN),
              ("REAN, attacker trained on clean", rean["reid"], rean, RELEASED),
              ("REAN, attacker retrained", rean["retrained"]["100"]["resnet1d"]["reid"], rean,
               WARN)]
    for name, reid, row, colour in points:
        auroc = row["independent"]["macro_auroc"]
        if reid["value"] is None or auroc["value"] is None:
            continue
        axes.plot(auroc["value"], reid["value"], "o", color=colour, label=name)
        if reid["low"] is not None:
            axes.vlines(auroc["value"], reid["low"], reid["high"], color=colour)
        if auroc["low"] is not None:
            axes.hlines(reid["value"], auroc["low"], auroc["high"], color=colour)
    axes.axhline(clean["reid"]["chance"], color="k", lw=0.8, ls=":", label="chance")
    axes.set(xlabel="macro-AUROC, independent network", ylabel="re-identified windows",
             ylim=(-0.03, 1.03))
    axes.locator_params(axis="x", nbins=6)
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=2)
    return svg(figure)


def curves(metrics: dict[str, Any]) -> str:
    """Mean training loss per round of every stage; empty where losses stayed private."""
    shown = {stage: [v for v in losses if v is not None]
             for stage, losses in metrics["curves"].items()}
    shown = {stage: losses for stage, losses in shown.items() if losses}
    if not shown:
        return ""
    columns = min(3, len(shown))
    figure = Figure(figsize=(8, 2.1 * -(-len(shown) // columns)), layout="constrained")
    grid = figure.subplots(-(-len(shown) // columns), columns, squeeze=False).ravel()
    for axes, (stage, losses) in zip(grid, shown.items(), strict=False):
        axes.plot(range(1, len(losses) + 1), losses, "o-", ms=3, color=RELEASED)
        axes.set(title=stage, xlabel="round", ylabel="loss")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in grid[len(shown):]:
        axes.axis("off")
    return svg(figure)


def examples(bundles: Bundles, rate: int) -> str:
    """One test window of each class, clean and released."""
    test = bundles.rows("test")
    classes = decided(bundles.allowed[test])
    shown = [c for c in range(len(ARRHYTHMIA_CLASSES)) if np.any(classes == c)]
    if not shown:
        return ""
    figure = Figure(figsize=(9, 1.7 * len(shown)), layout="constrained")
    for axes, c in zip(figure.subplots(len(shown), 1, squeeze=False).ravel(), shown, strict=True):
        row = test[np.flatnonzero(classes == c)[0]]
        time = np.arange(bundles.clean.shape[2]) / rate
        axes.plot(time, bundles.clean[row, 0], color=CLEAN, lw=1.2, label="clean")
        axes.plot(time, bundles.released[row, 0], color=RELEASED, lw=0.9, label="anonymized")
        axes.set(title=ARRHYTHMIA_CLASSES[c], xlabel="s" if c == shown[-1] else "", ylabel="NU")
    figure.axes[0].legend(frameon=False, ncols=2, fontsize=8, loc="upper right")
    return svg(figure)
