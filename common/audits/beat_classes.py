"""Is an ectopic beat still called one? Classes of the beats found before and after a release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.waves import drawn_pairs, matched
from common.ecg.beats import Beats
from common.ecg.delineation import r_peaks
from common.ecg.labels import BEAT_CLASSES
from common.results import Estimate, mean_estimate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Windows = NDArray[np.float32]

Heartbeats = tuple[Floats, Ints]  # of one window: times (s) and indices into `BEAT_CLASSES`

# Lead [L], R peaks (s), rate (Hz) -> index into `BEAT_CLASSES` of each beat.
Classify = Callable[[NDArray[np.float32], Floats, float], Ints]


def classes_agree(clean: Windows, released: Windows, rate: float, patient: Ints,
                  classify: Classify, *, beats: Beats | None = None, most: int = 200,
                  seed: int = 0) -> dict[str, Any]:
    """How a beat classifier answers before and after, on `most` windows, drawn by seed.

    Beats are those of the shared detector, matched within 150 ms as in EC57.

    Args:
        clean, released: [n, leads, L]; the first lead is looked at.
        rate: Hz.
        patient: [n].
        classify: knows neither version's annotations.
        beats: annotated beats of the n windows.
        most: windows that are looked at; it takes some 0.1 s each.

    Returns:
        windows: how many were compared.
        agreement: share of matched beats that are called the same; chance is that of answers
            with the same frequencies (Cohen, 1960). n counts beats.
        kept: class -> share of the beats called so before that are found again and called so;
            chance is the share of released beats that are called so. Only classes that occur.
        annotated: clean, released -> class -> share of the annotated beats that are found and
            called so; its clean side is how good the classifier is. Empty without `beats`.

    Raises:
        InputError: the shapes differ.
    """
    rows = drawn_pairs(clean, released, patient, most, seed)
    before, after = ([_classified(version[row, 0], rate, classify) for row in rows]
                     for version in (clean, released))
    annotated = {}
    if beats is not None:
        truth = [beats.of(int(row)) for row in rows]
        annotated = {name: _kept(truth, found, patient[rows])
                     for name, found in (("clean", before), ("released", after))}
    owner = np.repeat(patient[rows], [len(kind) for _, kind in before])
    return {"windows": len(rows), "agreement": _agreement(before, after, owner),
            "kept": _kept(before, after, patient[rows]), "annotated": annotated}


def _classified(lead: NDArray[np.float32], rate: float, classify: Classify) -> Heartbeats:
    time = r_peaks(lead, rate)
    return time, classify(lead, time, rate)


def _answers(reference: Sequence[Heartbeats], found: Sequence[Heartbeats]) -> Ints:
    """What each beat of the reference is called in `found`; -1 where none is near, [beats]."""
    called = [np.zeros(0, np.int64)]
    for (time, kind), (other, answer) in zip(reference, found, strict=True):
        pairs, one = matched(time, other), np.full(len(kind), -1, dtype=np.int64)
        one[pairs[:, 0]] = answer[pairs[:, 1]]
        called.append(one)
    return np.concatenate(called)


def _kinds(of: Sequence[Heartbeats]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *(kind for _, kind in of)])


def _agreement(before: Sequence[Heartbeats], after: Sequence[Heartbeats],
               owner: Ints) -> Estimate:
    """Of the beats before that are found after; `owner` is the patient of each before, [beats]."""
    one, two = _kinds(before), _answers(before, after)
    both = two >= 0
    chance = sum(np.mean(one[both] == kind) * np.mean(two[both] == kind)
                 for kind in range(len(BEAT_CLASSES))) if both.any() else None
    return mean_estimate(one[both] == two[both], owner[both], chance=chance)


def _kept(reference: Sequence[Heartbeats], found: Sequence[Heartbeats],
          patient: Ints) -> dict[str, Estimate]:
    """Class -> share of the reference's beats that are found and called so; only that occur."""
    truth, called, all_found = _kinds(reference), _answers(reference, found), _kinds(found)
    owner = np.repeat(patient, [len(kind) for _, kind in reference])
    kept: dict[str, Estimate] = {}
    for kind, name in enumerate(BEAT_CLASSES):
        of_kind = truth == kind
        if of_kind.any():
            guess = float(np.mean(all_found == kind)) if len(all_found) else None
            kept[name] = mean_estimate(called[of_kind] == kind, owner[of_kind], chance=guess)
    return kept
