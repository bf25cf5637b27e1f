"""Is the arrhythmia still there? Accuracy and AUROC over windows whose class is decided; PRD."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.auroc import auroc
from common.ecg.labels import decided
from common.protocol import ARRHYTHMIA_CLASSES
from common.results import Estimate, clustered_bootstrap, mean_estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def diagnosis(scores: Floats, allowed: NDArray[np.uint8], patient: Ints) -> dict[str, Any]:
    """Accuracy, macro-AUROC (mean of one-against-rest) and AUROC of each class present.

    Args:
        scores: class scores, [n, 4].
        allowed: label masks, [n]; windows with more than one class left take no part.
        patient: patient of each window, [n].
    """
    classes = decided(allowed)
    rows = np.flatnonzero(classes >= 0)
    s, y, who = scores[rows], classes[rows], patient[rows]
    present = [c for c in range(len(ARRHYTHMIA_CLASSES)) if 0 < np.sum(y == c) < len(y)]

    def macro(w: Floats) -> Floats:
        """Mean over the classes that a resample has."""
        values = np.array([auroc(y == c, s[:, c], w) for c in present]).reshape(-1, len(w))
        found = np.isfinite(values)
        total = np.where(found, values, 0).sum(0)
        return np.asarray(total / np.where(found.any(0), found.sum(0), np.nan))

    result: dict[str, Any] = {
        "arrhythmia_accuracy": mean_estimate(s.argmax(1) == y if len(y) else y, who),
        "macro_auroc": clustered_bootstrap(macro, who, chance=0.5),
        "auroc": {},
    }
    for c in present:
        result["auroc"][ARRHYTHMIA_CLASSES[c]] = clustered_bootstrap(
            partial(auroc, y == c, s[:, c]), who, chance=0.5)
    return result


def prd(clean: NDArray[np.float32], released: NDArray[np.float32], patient: Ints) -> Estimate:
    """Mean PRD in percent, 100 |x - x_hat| / |x| of each window [n, leads, L]."""
    change = np.sqrt(((clean - released) ** 2).sum((1, 2)))
    return mean_estimate(100 * change / np.sqrt((clean**2).sum((1, 2)) + 1e-12), patient)
