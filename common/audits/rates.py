"""How well scores tell members from non-members: AUC, the ROC, and TPR at low FPR.

A false positive rate below 1 / n cannot be seen with n non-members, so none is reported. Windows of
one patient are not independent: intervals are by patients, not by windows.

Source: Carlini et al., "Membership inference attacks from first principles" (2022), section III,
for TPR at low FPR; Clopper & Pearson (1934); Korn & Graubard (1998) for clustered proportions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from common.audits.auroc import auroc
from common.results import Estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SHOWN = (0.001, 0.01, 0.1)  # false positive rates that are reported where n allows them
_RESAMPLES = 500
_POINTS = 100  # of a ROC that is stored


def auc(score: Floats, member: Bools, patient: Ints) -> Estimate:
    """AUC; the interval resamples the patients of members and of non-members apart.

    Args:
        score: higher means member, [n].
        member: whether the element's patient was in training, [n].
        patient: [n].

    Returns:
        n counts patients; NaN without members or without non-members.
    """
    names, first, inverse = np.unique(patient, return_index=True, return_inverse=True)
    inside = member[first]
    groups = [np.flatnonzero(inside), np.flatnonzero(~inside)]
    if not all(map(len, groups)):
        return Estimate(float("nan"), float("nan"), float("nan"), len(names), 0.5)
    weights = np.ones((1 + _RESAMPLES, len(names)))
    generator = np.random.default_rng(0)
    for group in groups:
        size = len(group)
        weights[1:, group] = generator.multinomial(size, np.full(size, 1 / size), _RESAMPLES)
    values = auroc(member, score, weights[:, inverse])
    low, high = np.percentile(values[1:], [2.5, 97.5])
    if min(map(len, groups)) < 2:  # nothing to resample: no interval
        low = high = float("nan")
    return Estimate(float(values[0]), float(low), float(high), len(names), 0.5)


def proportion(hit: Bools, patient: Ints, chance: float | None = None) -> Estimate:
    """Share of hits with its Clopper-Pearson interval, exact where each patient counts once.

    With several elements a patient, n shrinks to the number of independent ones that would vary as
    much; where nothing varies (no hit, or all), to the number of patients.

    Args:
        hit: [n].
        patient: [n].
        chance: passed on to the estimate.
    """
    n, (names, inverse) = len(hit), np.unique(patient, return_inverse=True)
    if not n:
        return Estimate(float("nan"), float("nan"), float("nan"), 0, chance)
    share, clusters = float(np.mean(hit)), len(names)
    effective = float(clusters)
    if 0 < share < 1 and clusters > 1:
        spread = np.bincount(inverse, hit - share)
        variance = clusters / (clusters - 1) * float(spread @ spread) / n**2
        if variance > 0:
            effective = n * share * (1 - share) / (n - 1) / variance
    effective = min(max(effective, 1.0), n)
    hits = share * effective
    low = betaincinv(hits, effective - hits + 1, 0.025) if share > 0 else 0.0
    high = betaincinv(hits + 1, effective - hits, 0.975) if share < 1 else 1.0
    return Estimate(share, float(low), float(high), n, chance)


def roc(score: Floats, member: Bools) -> tuple[Ints, Ints, Floats]:
    """Every threshold of a ROC, strictest first.

    Returns:
        (false positives, true positives, threshold), each [thresholds]; an element is called a
        member if its score is at least the threshold; the first calls none.
    """
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    last = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True][:len(ranked)])  # of equal scores
    true = np.cumsum(member[order])[last]
    return (np.r_[0, last + 1 - true].astype(np.int64), np.r_[0, true].astype(np.int64),
            np.r_[np.inf, ranked[last]])


def rates(score: Floats, member: Bools, patient: Ints) -> dict[str, Any]:
    """All that a table and a figure need.

    Args:
        score: higher means member, [n].
        member, patient: [n].

    Returns:
        auc; members and non_members (elements); at: one {at, fpr, tpr} for each false positive
        rate that the non-members allow, the lowest first; roc: {fpr, tpr}, lists.
    """
    outside, inside = int(np.sum(~member)), int(np.sum(member))
    found: dict[str, Any] = {"auc": auc(score, member, patient), "members": inside,
                             "non_members": outside, "at": [], "roc": {"fpr": [], "tpr": []}}
    if not inside or not outside:
        return found
    false, true, threshold = roc(score, member)
    lowest = 1 / outside
    for at in sorted({lowest, *(rate for rate in SHOWN if rate >= lowest)} - {1.0}):
        cut = threshold[np.flatnonzero(false <= at * outside + 1e-9)[-1]]
        called = score >= cut
        found["at"].append({"at": at, "fpr": proportion(called[~member], patient[~member]),
                            "tpr": proportion(called[member], patient[member], chance=at)})
    shown = _thinned(false, true)
    found["roc"] = {"fpr": (false[shown] / outside).tolist(),
                    "tpr": (true[shown] / inside).tolist()}
    return found


def _thinned(false: Ints, true: Ints) -> Ints:
    """Indices of the points that a log-log figure can tell apart."""
    # Before each step to the right stands the highest point of its false positive rate.
    corners = np.flatnonzero(np.r_[np.diff(false) > 0, True])
    if len(corners) <= _POINTS:
        return corners
    steps = np.geomspace(1, len(corners), _POINTS).round().astype(np.int64) - 1
    return corners[np.unique(steps)]
