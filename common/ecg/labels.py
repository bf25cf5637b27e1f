"""What a record's annotations say about each window: the classes that it may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.protocol import ARRHYTHMIA_CLASSES

Floats = NDArray[np.float64]
Masks = NDArray[np.uint8]

_NORMAL, _AFIB, _PVC, _SVE = 1, 2, 4, 8  # bits, in the order of protocol.ARRHYTHMIA_CLASSES
_ALL = _NORMAL | _AFIB | _PVC | _SVE
BEAT_CLASSES = {  # AAMI EC57, and the WFDB symbols of each
    "N": ("N", "L", "R", "B", "e", "j", "n"), "S": ("A", "a", "J", "S"), "V": ("V", "E", "r"),
    "F": ("F",), "Q": ("/", "f", "Q", "?"),
}  # fmt: skip
_UNCLASSIFIED = ("Q", "?")  # a beat that may be any
_FLUTTER = ("[", "!", "]")  # ventricular flutter or fibrillation: none of the four classes
_AF_NOTES = ("(AFIB", "(AFL")


@dataclass(frozen=True)
class Annotations:
    """Annotations in time order: sample number, symbol, note and WFDB subtype of each."""

    sample: NDArray[np.int64]
    symbol: NDArray[np.str_]
    aux_note: tuple[str, ...]
    subtype: NDArray[np.int_]


def decided(masks: Masks) -> NDArray[np.int64]:
    """Class of each window whose mask allows exactly one, else -1. [n] -> [n]."""
    single = 1 << np.arange(len(ARRHYTHMIA_CLASSES))
    match = masks[:, None] == single
    return np.where(match.any(1), match.argmax(1), -1)


def label_windows(
    annotation: Annotations | None,
    sampling_rate: float,
    starts: Floats,
    seconds: float,
    dialect: str,
) -> tuple[Masks, Masks]:
    """Masks of the classes that each window may have; bit i is ARRHYTHMIA_CLASSES[i].

    In this order: a window is AFIB if AFIB or AFL rhythm covers at least half of it; PVC if it
    holds an AAMI V beat (V, E, r); SVE if it holds an AAMI S beat (A, a, J, S); else Normal, which
    means "none of the three": paced beats, bundle branch blocks and fusion beats are in it.

    Args:
        annotation: the record's annotations; None is treated like dialect "none".
        sampling_rate: Hz, of the annotations' sample numbers.
        starts: start of each window, s.
        seconds: length of a window.
        dialect: one of `hospital_file.LABELS`.

    Returns:
        `strict`, every class that the annotations leave possible. "beats+rhythm": the label;
        AFIB besides, where no rhythm mark precedes the window. "beats": {AFIB, beat label}.
        "rhythm-comments": AFIB where covered; all four where `(N` ("not annotated") or nothing
        could make up half of the window; else {Normal, PVC, SVE}. "none": all four. A beat that
        nobody classified (Q, ?) leaves open whatever comes before the label in the order above;
        ventricular flutter leaves all four, as none of them is true.
        `paper`, one class: what is not annotated counts as absent.
    """
    n = len(starts)
    if annotation is None or dialect == "none":
        return np.full(n, _ALL, np.uint8), np.full(n, _NORMAL, np.uint8)
    times = np.asarray(annotation.sample, dtype=np.float64) / sampling_rate
    if dialect == "rhythm-comments":
        return _from_comments(annotation, times, starts, seconds)
    beats, possible = _beat_labels(annotation, times, starts, seconds)
    if dialect == "beats":
        return possible | np.uint8(_AFIB), beats
    begins, names = _rhythms(annotation, times, "+")
    known = starts >= (begins[0] if len(begins) else np.inf)
    afib = _covered(begins, [name in _AF_NOTES for name in names], starts, seconds)
    sure = afib >= 0.5 * seconds - 1e-9
    strict = np.where(sure, _AFIB, np.where(known, possible, possible | _AFIB))
    return strict.astype(np.uint8), np.where(sure, _AFIB, beats).astype(np.uint8)


def _from_comments(
    annotation: Annotations, times: Floats, starts: Floats, seconds: float
) -> tuple[Masks, Masks]:
    begins, names = _rhythms(annotation, times, '"')
    afib = _covered(begins, [name in _AF_NOTES for name in names], starts, seconds)
    others = [name not in (*_AF_NOTES, "(N") for name in names]
    named = _covered(begins, others, starts, seconds) > 0.5 * seconds + 1e-9
    sure = afib >= 0.5 * seconds - 1e-9
    strict = np.where(sure, _AFIB, np.where(named, _ALL - _AFIB, _ALL))
    return strict.astype(np.uint8), np.where(sure, _AFIB, _NORMAL).astype(np.uint8)


def _rhythms(annotation: Annotations, times: Floats, marker: str) -> tuple[Floats, list[str]]:
    """When each annotated rhythm begins (s), and its note."""
    marks = np.flatnonzero(annotation.symbol == marker)
    notes = [annotation.aux_note[i].replace("\0", "").strip() for i in marks]
    named = [k for k, note in enumerate(notes) if note[:1] == "("]
    return times[[marks[k] for k in named]], [notes[k] for k in named]


def _beat_labels(
    annotation: Annotations, times: Floats, starts: Floats, seconds: float
) -> tuple[Masks, Masks]:
    """The label that each window's beats give it, and those that they leave possible."""
    def holds(chosen: tuple[str, ...]) -> NDArray[np.bool_]:
        at = times[np.isin(annotation.symbol, chosen)]
        first, last = np.searchsorted(at, starts), np.searchsorted(at, starts + seconds)
        return np.asarray(last > first)

    ectopic = [holds(BEAT_CLASSES["V"]), holds(BEAT_CLASSES["S"])]
    labels = np.select(ectopic, [_PVC, _SVE], _NORMAL)
    earlier = np.select([labels == _PVC, labels == _SVE], [0, _PVC], _PVC | _SVE)
    possible = np.where(holds(_UNCLASSIFIED), labels | earlier, labels)
    possible = np.where(holds(_FLUTTER), _ALL, possible)
    return labels.astype(np.uint8), possible.astype(np.uint8)


def _covered(begins: Floats, chosen: Sequence[bool], starts: Floats, seconds: float) -> Floats:
    """Seconds of each window inside the chosen intervals; one lasts until the next begins."""
    if not len(begins) or not len(starts):
        return np.zeros(len(starts))
    end = max(float(begins[-1]), float(starts[-1]) + seconds)
    knots = np.append(begins, end)
    total = np.concatenate([[0.0], np.cumsum(np.diff(knots) * np.asarray(chosen, dtype=float))])
    before, after = np.interp(starts, knots, total), np.interp(starts + seconds, knots, total)
    return np.asarray(after - before, dtype=np.float64)
