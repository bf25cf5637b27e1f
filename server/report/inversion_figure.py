"""What inversions reconstructed, beside what it should have been; inline SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from common.audits.reconstruction import likeness
from server.report.figures import CLEAN, RELEASED, svg

_PEOPLE = 4  # whose beats are drawn
_NAMES = {"easy-none": "easy model, no privacy",
          "easy-weak": "easy model, a thousandth of the noise",
          "easy-window": "easy model, window DP", "first-none": "first round, no privacy",
          "first-weak": "first round, a thousandth of the noise",
          "first-window": "first round, window DP", "last-none": "last round, no privacy"}


def reconstructions(folder: Path, rate: int) -> str:
    """Beats from a classifier, and windows from updates; empty where nothing was inverted.

    Args:
        folder: of the audit, which keeps the signals.
        rate: Hz.
    """
    panels: list[tuple[str, Any, Any]] = []
    if (folder / "inversion-model.npz").exists():
        with np.load(folder / "inversion-model.npz") as kept:
            for row, person in enumerate(kept["people"][:_PEOPLE]):
                panels.append((f"mean beat of patient {person}, from a classifier's weights",
                               kept["shapes"][person, 0], kept["head-beat"][row, 0]))
    if (folder / "inversion-gradient.npz").exists():
        with np.load(folder / "inversion-gradient.npz") as kept:
            panels += [panel for size in (1, 8) for panel in _windows(kept, size)]
    if not panels:
        return ""
    figure = Figure(figsize=(9, 1.5 * len(panels)), layout="constrained")
    for axes, (title, target, found) in zip(figure.subplots(len(panels), 1, squeeze=False).ravel(),
                                            panels, strict=True):
        time = np.arange(len(target)) / rate
        axes.plot(time, _spanning(target), color=CLEAN, lw=1.2, label="target")
        axes.plot(time, _spanning(found), color=RELEASED, lw=0.9, label="reconstruction")
        axes.set_title(title)
        axes.set_yticks([])
    figure.axes[-1].set_xlabel("s")
    figure.axes[0].legend(frameon=False, ncols=2, fontsize=8, loc="upper right")
    return svg(figure)


def _windows(kept: Any, size: int) -> list[tuple[str, Any, Any]]:
    """The first window of the first update of a size, for each kind of update."""
    panels = []
    for name, title in _NAMES.items():
        if f"{name}-{size}" in kept:
            targets, found = kept[f"target-{size}"][0], kept[f"{name}-{size}"][0]
            like = likeness(targets, found)
            panels.append((f"{title}, batch of {size}: correlation {like.correlation[0]:.2f}",
                           targets[0, 0], found[like.found[0], 0]))
    return panels


def _spanning(x: NDArray[Any]) -> NDArray[Any]:
    """From 0 to 1: a mean beat has another unit than a window."""
    return np.asarray((x - x.min()) / max(float(np.ptp(x)), 1e-9))
