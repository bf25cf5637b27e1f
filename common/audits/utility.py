"""Is the arrhythmia still there? Accuracy and AUROC over windows whose class is decided; PRD."""

from __future__ import annotations

from collections.abc import Sequence
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
    result: dict[str, Any] = {
        "arrhythmia_accuracy": mean_estimate(s.argmax(1) == y if len(y) else y, who),
        "macro_auroc": clustered_bootstrap(partial(_macro, y, s), who, chance=0.5),
        "auroc": {},
    }
    for c in _present(y):
        result["auroc"][ARRHYTHMIA_CLASSES[c]] = clustered_bootstrap(
            partial(auroc, y == c, s[:, c]), who, chance=0.5)
    return result


def gain(pairs: Sequence[tuple[Floats, Floats]], allowed: NDArray[np.uint8], patient: Ints, *,
         beyond: Sequence[tuple[Floats, Floats]] = ()) -> Estimate:
    """Macro-AUROC after minus before, the mean over networks, paired and clustered by patient.

    Args:
        pairs: of each network, its class scores before and after, [n, 4] each.
        allowed: label masks, [n]; windows with more than one class left take no part.
        patient: [n].
        beyond: networks whose mean gain is subtracted: how much more do `pairs` gain than these?
    """
    classes = decided(allowed)
    rows = np.flatnonzero(classes >= 0)

    def mean(networks: Sequence[tuple[Floats, Floats]], weights: Floats) -> Floats:
        each = [_macro(classes[rows], after[rows], weights)
                - _macro(classes[rows], before[rows], weights) for before, after in networks]
        return np.asarray(np.mean(each, axis=0))

    def statistic(weights: Floats) -> Floats:
        return mean(pairs, weights) - (mean(beyond, weights) if beyond else 0.0)

    return clustered_bootstrap(statistic, patient[rows])


def _present(classes: Ints) -> list[int]:
    """Classes that some windows have and some have not."""
    return [c for c in range(len(ARRHYTHMIA_CLASSES)) if 0 < np.sum(classes == c) < len(classes)]


def _macro(classes: Ints, scores: Floats, weights: Floats) -> Floats:
    """AUROC of each resample [resamples, n], the mean over the classes that the resample has."""
    values = np.array([auroc(classes == c, scores[:, c], weights)
                       for c in _present(classes)]).reshape(-1, len(weights))
    found = np.isfinite(values)
    total = np.where(found, values, 0).sum(0)
    return np.asarray(total / np.where(found.any(0), found.sum(0), np.nan))


def prd(clean: NDArray[np.float32], released: NDArray[np.float32], patient: Ints) -> Estimate:
    """Mean PRD in percent, 100 |x - x_hat| / |x| of each window [n, leads, L]."""
    change = np.sqrt(((clean - released) ** 2).sum((1, 2)))
    return mean_estimate(100 * change / np.sqrt((clean**2).sum((1, 2)) + 1e-12), patient)
