"""Are the beats and waves still there? R peaks, and QRS, PR and QT intervals, before and after.

Sensitivity and positive predictivity with 150 ms are those of ANSI/AAMI EC57. Intervals are
compared beat by beat where R peaks match, which is only fair to a release that keeps the beat
times, and by each patient's median, which needs no match. The delineator's own errors are in all
figures: read those of clean windows, and `annotated`, beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.ecg.beats import Beats
from common.ecg.delineation import INTERVALS, Delineation, delineate
from common.errors import InputError
from common.results import Estimate, clustered_bootstrap, mean_estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Windows = NDArray[np.float32]

MATCH = 0.15  # s, of EC57
TOLERANCE = {"QRS": 20.0, "PR": 20.0, "QT": 40.0}  # ms: half a small square of ECG paper, and one


def waves_agree(clean: Windows, released: Windows, rate: float, patient: Ints, *,
                beats: Beats | None = None, most: int = 200, seed: int = 0) -> dict[str, Any]:
    """Beat-level clinical check of a release on `most` windows, drawn by seed.

    Args:
        clean, released: [n, leads, L] in [0, 1]; the first lead is looked at.
        rate: Hz.
        patient: [n].
        beats: annotated beats of the n windows.
        most: windows that are delineated; it takes some 0.1 s each.

    Returns:
        windows: how many were compared.
        failed: clean, released -> share of windows in which no beat was found or the delineator
            raised; they take part in all other figures, as windows without beats.
        r_peaks: sensitivity, positive_predictivity of released against clean R peaks; chance is
            that of clean R peaks of another window.
        annotated: clean, released -> as r_peaks, against annotations; empty without `beats`.
        intervals: QRS, PR, QT -> found (clean, released -> share of beats), difference (ms, median
            absolute, of matched beats that have both), within (share of these within `TOLERANCE`),
            clean and released (ms, medians over all beats), patients (ms, mean absolute
            difference of a patient's medians; n counts patients).

    Raises:
        InputError: the shapes differ.
    """
    rows = drawn_pairs(clean, released, patient, most, seed)
    who = patient[rows]
    before, after = ([delineate(version[i], rate) for i in rows] for version in (clean, released))
    versions = {"clean": before, "released": after}
    times = {name: [one.time for one in found] for name, found in versions.items()}
    annotated = {}
    if beats is not None:
        truth = [beats.of(int(i))[0] for i in rows]
        annotated = {name: r_peaks(truth, found, who) for name, found in times.items()}
    return {
        "windows": len(rows),
        "failed": {name: mean_estimate(np.array([one.failed or not len(one) for one in found]), who)
                   for name, found in versions.items()},
        "r_peaks": r_peaks(times["clean"], times["released"], who),
        "annotated": annotated,
        "intervals": {name: _interval(name, before, after, who) for name in INTERVALS},
    }


def drawn_pairs(clean: Windows, released: Windows, patient: Ints, most: int, seed: int) -> Ints:
    """Rows of at most `most` windows that are compared, drawn by seed.

    Raises:
        InputError: the versions differ in shape, or not every window has a patient.
    """
    if clean.shape != released.shape or len(patient) != len(clean):
        raise InputError(f"released is {released.shape} with {len(patient)} patients; allowed is "
                         f"{clean.shape} with one each, as clean")
    return np.random.default_rng(seed).permutation(len(clean))[:most]


def matched(reference: Floats, found: Floats) -> Ints:
    """Pairs of beats at most 150 ms apart, one to one in time order, [pairs, 2]."""
    pairs, i, j = [], 0, 0
    while i < len(reference) and j < len(found):
        late = found[j] - reference[i]
        if abs(late) <= MATCH:
            pairs.append((i, j))
        i += late >= -MATCH
        j += late <= MATCH
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def r_peaks(reference: Sequence[Floats], found: Sequence[Floats],
            patient: Ints) -> dict[str, Estimate]:
    """Sensitivity and positive predictivity over all beats of n windows; n counts windows.

    Args:
        reference, found: times of the beats of each window, s.
        patient: [n].
    """
    def count(truth: Sequence[Floats]) -> Floats:
        pairs = [matched(a, b) for a, b in zip(truth, found, strict=True)]
        return np.array([len(pair) for pair in pairs], dtype=float)

    half = len(reference) // 2
    hits, others = count(reference), [*reference[half:], *reference[:half]]
    by_chance = count(others).sum() if half else np.nan
    estimates = {}
    for name, beats in (("sensitivity", reference), ("positive_predictivity", found)):
        total = np.array([len(one) for one in beats], dtype=float)

        def share(weights: Floats, total: Floats = total) -> Floats:
            with np.errstate(invalid="ignore"):
                return np.asarray((weights @ hits) / (weights @ total))

        chance = float(by_chance / total.sum()) if total.sum() else None
        estimates[name] = clustered_bootstrap(share, patient, chance=chance)
    return estimates


def _interval(name: str, before: list[Delineation], after: list[Delineation],
              who: Ints) -> dict[str, Any]:
    """Agreement of one interval."""
    column = INTERVALS.index(name)
    a, b = ([one.intervals[:, column] for one in found] for found in (before, after))
    pairs = [matched(x.time, y.time) for x, y in zip(before, after, strict=True)]
    difference = np.concatenate([np.zeros(0), *(
        abs(x[pair[:, 0]] - y[pair[:, 1]]) for x, y, pair in zip(a, b, pairs, strict=True))])
    owner = np.repeat(who, [len(pair) for pair in pairs])
    both = np.isfinite(difference)
    tree: dict[str, Any] = {
        "found": {},
        "difference": median_estimate(difference[both], owner[both]),
        "within": mean_estimate(difference[both] <= TOLERANCE[name] + 1e-6, owner[both])}
    medians = []
    for version, values in (("clean", a), ("released", b)):
        flat = np.concatenate([np.zeros(0), *values])
        owner, known = np.repeat(who, [len(one) for one in values]), np.isfinite(flat)
        tree["found"][version] = mean_estimate(known, owner)
        tree[version] = median_estimate(flat[known], owner[known])
        medians.append({p: np.median(flat[known & (owner == p)])
                        for p in np.unique(owner[known])})
    people = sorted(set(medians[0]) & set(medians[1]))
    apart = np.array([abs(medians[0][p] - medians[1][p]) for p in people])
    tree["patients"] = mean_estimate(apart, np.array(people, dtype=np.int64))
    return tree


def median_estimate(values: Floats, clusters: Ints) -> Estimate:
    """Median (the lower one) with a patient-clustered interval; n counts values."""
    order = np.argsort(values)

    def statistic(weights: Floats) -> Floats:
        below = np.cumsum(weights[:, order], axis=1)  # (resamples, n)
        return np.asarray(values[order][(below >= below[:, -1:] / 2).argmax(1)])

    return clustered_bootstrap(statistic, clusters)
