"""Was this patient's data in the training set? The loss-threshold attack.

Source: Yeom et al. (2018). Members and non-members are patients of the same hospital, so that
hospital-specific signals (device, filter, sampling) cannot be mistaken for membership.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.audits.auroc import auroc
from common.results import Estimate

Floats = NDArray[np.float64]
_RESAMPLES = 500


def loss_gap(loss: Floats, member: NDArray[np.bool_], patient: NDArray[np.int64]) -> Estimate:
    """AUC of telling members from non-members by a patient's mean loss.

    Args:
        loss: loss of each window under the released model, [n].
        member: whether its patient was in training, [n].
        patient: [n].

    Returns:
        n counts patients; the interval resamples members and non-members apart.
    """
    names = np.unique(patient)
    mean = np.array([loss[patient == name].mean() for name in names])
    inside = np.array([bool(member[patient == name][0]) for name in names], dtype=bool)
    generator = np.random.default_rng(0)
    weights = np.ones((1 + _RESAMPLES, len(names)))
    for group in (inside, ~inside):
        size = int(group.sum())
        if not size:
            return Estimate(float("nan"), float("nan"), float("nan"), len(names), 0.5)
        weights[1:, group] = generator.multinomial(size, np.full(size, 1 / size), _RESAMPLES)
    values = auroc(inside, -mean, weights)
    low, high = np.percentile(values[1:], [2.5, 97.5])
    if min(inside.sum(), (~inside).sum()) < 2:  # nothing to resample: no interval
        low = high = float("nan")
    return Estimate(float(values[0]), float(low), float(high), len(names), 0.5)
