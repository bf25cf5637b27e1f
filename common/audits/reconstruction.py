"""How like a target is what an attacker reconstructed, and how like anybody else?

A reconstruction that is any ECG correlates with every patient's, so each figure stands beside the
same one against other people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from common.results import mean_estimate

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_REACH = 0.06  # of a shape's length: its R peak may be found that far from the other's
_EACH = 20  # windows that a patient's mean beat is made of


def correlations(a: Array, b: Array, reach: int = 0) -> tuple[Floats, Ints]:
    """Pearson's correlation of all pairs, over leads and time; 0 with what is flat or NaN.

    Args:
        a: [n, leads, T].
        b: [m, leads, T].
        reach: samples that b may be rotated by, either way; the best counts.

    Returns:
        Correlations and the rotation of b that gives each, both [n, m].
    """
    a, b = _standard(a), _standard(b)
    size = a.shape[-1]
    shifts = np.unique(np.arange(-min(reach, size // 2), min(reach, size // 2) + 1) % size)
    spectra = np.fft.rfft(a), np.fft.rfft(b)
    value, at = np.zeros((len(a), len(b))), np.zeros((len(a), len(b)), dtype=np.int64)
    for i, one in enumerate(spectra[0]):  # a row at a time: all pairs would not fit in memory
        found = np.fft.irfft((one * spectra[1].conj()).sum(1), n=size)[:, shifts]  # (m, shifts)
        at[i], value[i] = shifts[found.argmax(1)], found.max(1)
    return value, at


def _standard(x: Array) -> Floats:
    x = np.nan_to_num(np.asarray(x, dtype=np.float64))
    x = x - x.mean(axis=(1, 2), keepdims=True)
    norm = np.sqrt((x**2).sum(axis=(1, 2), keepdims=True))
    return np.asarray(np.where(norm > 1e-9, x / np.maximum(norm, 1e-9), 0.0))


@dataclass(frozen=True)
class Likeness:
    """Of each target to the reconstruction that is most like it, each used once, [B].

    Args:
        found: which reconstruction.
        correlation: in place.
        rotated: at the best rotation in time: a recording that begins later is the same recording.
        prd: percent, at that rotation.
    """

    found: Ints
    correlation: Floats
    rotated: Floats
    prd: Floats


def likeness(targets: Array, found: Array) -> Likeness:
    """Assign reconstructions to the targets of a batch, both [B, leads, L], and compare."""
    best, shift = correlations(targets, found, targets.shape[-1])
    rows, columns = linear_sum_assignment(-best)
    in_place = correlations(targets, found)[0][rows, columns]
    turned = np.stack([np.roll(found[j], shift[i, j], axis=-1)
                       for i, j in zip(rows, columns, strict=True)])
    change = np.sqrt(((targets - turned) ** 2).sum((1, 2)))
    prd = 100 * change / np.sqrt((targets**2).sum((1, 2)) + 1e-12)
    return Likeness(columns, in_place, best[rows, columns], prd)


def batches(targets: list[Array], found: list[Array], others: list[list[Array]],
            patient: list[Ints]) -> dict[str, Any]:
    """Correlation, correlation at the best rotation, and PRD, over the windows of all batches.

    Args:
        targets, found: [B, leads, L] of each batch.
        others: for each batch, batches of other people's windows; what `found` reaches on them,
            assigned in the same way, is chance.
        patient: of the targets, [B].
    """
    own = [likeness(a, b) for a, b in zip(targets, found, strict=True)]
    chance = [likeness(a, b) for b, many in zip(found, others, strict=True) for a in many]
    who = np.concatenate(patient)
    return {name: mean_estimate(
        np.concatenate([getattr(one, name) for one in own]), who,
        chance=float(np.mean([getattr(one, name) for one in chance])))
        for name in ("correlation", "rotated", "prd")}


def shapes(found: Array, everyone: Array, patient: Ints) -> dict[str, Any]:
    """Mean beats of reconstructions against those of all patients.

    Args:
        found: [n, leads, T]; NaN where no beat was found, which counts as no likeness.
        everyone: the mean beat of each patient, [patients, leads, T]; NaN where unknown.
        patient: whom each reconstruction should show, [n].

    Returns:
        correlation: with the patient's own; chance: with the others'. nearest: share that is more
        like their own than anybody else's; chance 1 / patients.
    """
    known = np.flatnonzero(np.isfinite(everyone).all(axis=(1, 2)))
    kept = np.isin(patient, known)
    found, who = found[kept], np.searchsorted(known, patient[kept])
    all_pairs = correlations(found, everyone[known], round(_REACH * found.shape[-1]))[0]
    rows = np.arange(len(who))
    own = all_pairs[rows, who] if len(who) else np.zeros(0)
    rest = np.ones_like(all_pairs, dtype=bool)
    rest[rows, who] = False
    # A tie, as of flat signals that are like nobody, is no success.
    nearest = own > np.where(rest, all_pairs, -np.inf).max(1, initial=-np.inf)
    return {"correlation": mean_estimate(own, patient[kept],
                                         chance=float(all_pairs[rest].mean()) if rest.any()
                                         else None),
            "nearest": mean_estimate(nearest, patient[kept], chance=1 / max(1, len(known)))}


def mean_beats(windows: Array, owner: Ints, owners: Ints, rate: float) -> Floats:
    """The mean normal beat of each owner, [owners, leads, T]; NaN where too few beats are found.

    Args:
        windows: float32 [n, leads, L].
        owner: of each window, [n].
        owners: whose beats are wanted.
        rate: Hz.
    """
    from common.anonymizers.beat_cutting import AFTER, BEFORE, mean_beat  # seconds: neurokit2
    from common.anonymizers.contract import Labelled
    from common.anonymizers.rhythm import Rhythm
    from common.ecg.beats import no_beats
    from common.ecg.delineation import r_peaks

    rows = np.concatenate([np.zeros(0, np.int64), *(
        mine[np.linspace(0, len(mine) - 1, min(len(mine), _EACH)).astype(int)]
        for one in owners if len(mine := np.flatnonzero(owner == one)))])
    x, nothing = windows[rows], np.zeros(len(rows), dtype=np.int64)
    data = Labelled(x, rate, nothing, nothing, owner[rows], nothing, nothing, no_beats(len(x)))
    rhythms = []
    for one in x:
        time = r_peaks(one[0], rate)
        rhythms.append(Rhythm(time, np.zeros(len(time), np.int64), False, x.shape[2] / rate))
    result = np.full((len(owners), windows.shape[1], round((BEFORE + AFTER) * rate)), np.nan)
    for number, one in enumerate(owners):
        shape = mean_beat(data, np.flatnonzero(owner[rows] == one), rhythms, 0)
        if shape is not None:
            result[number] = shape
    return result
