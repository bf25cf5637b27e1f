"""Was this patient's data in the training set? The loss-threshold attack.

Source: Yeom et al. (2018). Members and non-members are patients of the same hospital, so that
hospital-specific signals (device, filter, sampling) cannot be mistaken for membership.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from common.results import Estimate

Floats = NDArray[np.float64]


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
    inside = np.array([bool(member[patient == name][0]) for name in names])
    a, b = mean[inside], mean[~inside]
    if not len(a) or not len(b):
        return Estimate(float("nan"), float("nan"), float("nan"), len(names), 0.5)
    generator = np.random.default_rng(0)
    draws = [_auc(generator.choice(a, len(a)), generator.choice(b, len(b))) for _ in range(500)]
    low, high = np.percentile(draws, [2.5, 97.5])
    return Estimate(_auc(a, b), float(low), float(high), len(names), 0.5)


def _auc(members: Floats, others: Floats) -> float:
    truth = np.r_[np.ones(len(members)), np.zeros(len(others))]
    return float(roc_auc_score(truth, -np.r_[members, others]))
