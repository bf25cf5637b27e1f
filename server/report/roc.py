"""ROC curves of the membership attacks on two logarithmic axes, as inline SVG."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from server.report.figures import CLEAN, RELEASED, WARN, svg

_COLOURS = {"loss": RELEASED, "rmia": RELEASED, "lira": WARN}
_UNITS = ("patient", "window")


def rocs(found: dict[str, Any]) -> str:
    """One row a unit, one panel a model; empty where no attack had members and non-members.

    Args:
        found: model -> attack -> the tree of `server.attacks.membership.verdict`.
    """
    models = [model for model, attacks in found.items()
              if any(tree[unit]["at"] for tree in attacks.values() for unit in _UNITS)]
    if not models:
        return ""
    figure = Figure(figsize=(2.2 * len(models) + 0.6, 4.4), layout="constrained")
    grid = figure.subplots(len(_UNITS), len(models), squeeze=False)
    for row, unit in zip(grid, _UNITS, strict=True):
        for axes, model in zip(row, models, strict=True):
            _panel(axes, {name: tree[unit] for name, tree in found[model].items()})
            axes.set_title(f"{model}, per {unit}")
        row[0].set_ylabel("true positive rate")
    for axes in grid[-1]:
        axes.set_xlabel("false positive rate")
    figure.axes[0].legend(frameon=False, fontsize=8, loc="lower right")
    return svg(figure)


def _panel(axes: Any, attacks: dict[str, Any]) -> None:
    lowest = 1.0
    for name, tree in attacks.items():
        if tree["non_members"]:
            lowest = min(lowest, 1 / tree["non_members"])
        points = [(x, y) for x, y in zip(*tree["roc"].values(), strict=True) if x > 0 and y > 0]
        if points:
            axes.step(*zip(*points, strict=True), where="post", color=_COLOURS[name], lw=1.2,
                      label=name)
    low = lowest / 2  # room for the first step
    axes.plot([low, 1], [low, 1], color=CLEAN, lw=0.8, ls=":", label="guessing")
    axes.set(xscale="log", yscale="log", xlim=(low, 1.1), ylim=(low, 1.1))
