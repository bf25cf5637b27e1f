"""Is an ectopic beat still called one? Classes of the beats found before and after a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.waves import drawn_pairs, matched
from common.ecg.delineation import r_peaks
from common.ecg.labels import BEAT_CLASSES
from common.results import Estimate, mean_estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Windows = NDArray[np.float32]

# Lead [L], R peaks (s), rate (Hz) -> index into `BEAT_CLASSES` of each beat.
Classify = Callable[[NDArray[np.float32], Floats, float], Ints]


def classes_agree(clean: Windows, released: Windows, rate: float, patient: Ints,
                  classify: Classify, *, most: int = 200, seed: int = 0) -> dict[str, Any]:
    """How a beat classifier answers before and after, on `most` windows, drawn by seed.

    Beats are those of the shared detector, matched within 150 ms as in EC57.

    Args:
        clean, released: [n, leads, L]; the first lead is looked at.
        rate: Hz.
        patient: [n].
        classify: knows neither version's annotations.
        most: windows that are looked at; it takes some 0.1 s each.

    Returns:
        windows: how many were compared.
        agreement: share of matched beats that are called the same; chance is that of answers
            with the same frequencies (Cohen, 1960). n counts beats.
        kept: class -> share of the beats called so before that are found again and called so;
            chance is the share of released beats that are called so. Only classes that occur.

    Raises:
        InputError: the shapes differ.
    """
    rows = drawn_pairs(clean, released, patient, most, seed)
    before, after, found = ([np.zeros(0, np.int64)] for _ in range(3))
    for row in rows:
        (a_time, a), (b_time, b) = (_classified(version[row, 0], rate, classify)
                                    for version in (clean, released))
        pairs, answer = matched(a_time, b_time), np.full(len(a), -1, dtype=np.int64)
        answer[pairs[:, 0]] = b[pairs[:, 1]]
        before.append(a)
        after.append(answer)
        found.append(b)
    owner = np.repeat(patient[rows], [len(a) for a in before[1:]])
    return {"windows": len(rows), **_agreement(
        np.concatenate(before), np.concatenate(after), owner, np.concatenate(found))}


def _classified(lead: NDArray[np.float32], rate: float, classify: Classify) -> tuple[Floats, Ints]:
    time = r_peaks(lead, rate)
    return time, classify(lead, time, rate)


def _agreement(before: Ints, after: Ints, owner: Ints, found: Ints) -> dict[str, Any]:
    """Of clean beats [beats]: called before, called after (-1: not found), patient.

    `found` are the classes of all released beats, matched or not.
    """
    both = after >= 0
    kinds = range(len(BEAT_CLASSES))
    chance = sum(np.mean(before[both] == kind) * np.mean(after[both] == kind)
                 for kind in kinds) if both.any() else None
    kept: dict[str, Estimate] = {}
    for kind, name in enumerate(BEAT_CLASSES):
        of_kind = before == kind
        if of_kind.any():
            guess = float(np.mean(found == kind)) if len(found) else None
            kept[name] = mean_estimate(after[of_kind] == kind, owner[of_kind], chance=guess)
    return {"agreement": mean_estimate(before[both] == after[both], owner[both], chance=chance),
            "kept": kept}
