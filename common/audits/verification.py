"""Is it the same person? Error rates of accepting a claimed identity by similarity.

A claim is genuine (the own patient) or an impostor's (another patient, drawn at random).
Source: ISO/IEC 19795-1: equal error rate, true accepts at a fixed rate of false accepts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.matching import Matches
from common.results import Estimate, clustered_bootstrap

Array = NDArray[np.float64]

FALSE_ACCEPTS = (0.01, 0.001)
_THRESHOLDS = 300
_SEEN = 10  # impostor claims that a rate must let pass to be measured


def verification(matches: Matches) -> dict[str, Any]:
    """Equal error rate, and true accept rates at 1 % and .1 % false accepts.

    Intervals resample the probes' patients, genuine and impostor claims together. A rate that fewer
    than ten of the impostor claims would reach is not measured.

    Returns:
        {"eer": ..., "tar_at_far": {"0.01": ..., "0.001": ...}, "claims": impostor claims}.
    """
    claims = matches.others.size
    missing = Estimate(float("nan"), float("nan"), float("nan"), 0, None)
    if not claims:
        return {"eer": missing, "tar_at_far": {}, "claims": 0}
    accepted, false = _rates(matches)
    found = {rate: clustered_bootstrap(partial(_accepts_at, accepted, false, rate),
                                       matches.patient, chance=rate)
             for rate in FALSE_ACCEPTS if claims * rate >= _SEEN}
    eer = clustered_bootstrap(partial(_equal, accepted, false), matches.patient, chance=0.5)
    return {"eer": eer, "tar_at_far": {f"{rate:g}": found.get(rate, missing)
                                       for rate in FALSE_ACCEPTS}, "claims": claims}


def _rates(matches: Matches) -> tuple[Array, Array]:
    """Of each probe at each threshold: the genuine claim accepted, share of impostors accepted."""
    own, others = matches.own.astype(np.float64), matches.others.astype(np.float64)
    # Half of the thresholds divide the genuine claims, half the impostors', more in their tail.
    tail = np.r_[np.linspace(0, 0.99, _THRESHOLDS // 4), 1 - np.geomspace(1e-2, 1e-5,
                                                                         _THRESHOLDS // 4)]
    thresholds = np.unique(np.r_[np.quantile(own, np.linspace(0, 1, _THRESHOLDS // 2)),
                                 np.quantile(others, tail), np.inf])
    accepted = own[:, None] >= thresholds  # (n, T)
    # Sorted rows make the share a search, so that no (n, m, T) is made.
    counts = np.stack([len(row) - np.searchsorted(row, thresholds)
                       for row in np.sort(others, axis=1)])
    return accepted.astype(np.float64), counts / others.shape[1]


def _accepts_at(accepted: Array, false: Array, rate: float, weights: Array) -> Array:
    """True accept rate at the lowest threshold that keeps false accepts within the rate, [R]."""
    true, wrong = _weighted(accepted, weights), _weighted(false, weights)
    at = (wrong <= rate).argmax(1)  # thresholds ascend; the last one, infinity, accepts nobody
    return np.asarray(true[np.arange(len(true)), at])


def _equal(accepted: Array, false: Array, weights: Array) -> Array:
    """Where false accepts and false rejects are nearest, their mean, [R]."""
    rejected, wrong = 1 - _weighted(accepted, weights), _weighted(false, weights)
    at = np.abs(rejected - wrong).argmin(1)[:, None]
    return np.asarray((np.take_along_axis(rejected, at, 1) + np.take_along_axis(wrong, at, 1))[:, 0]
                      / 2)


def _weighted(values: Array, weights: Array) -> Array:
    """Means over probes in each resample, [R, T]."""
    return np.asarray(weights @ values / np.maximum(weights.sum(1, keepdims=True), 1e-12))
