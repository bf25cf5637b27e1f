"""What a record's annotations say about each window: the classes that it may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Masks = NDArray[np.uint8]

_NORMAL, _AFIB, _PVC, _SVE = 1, 2, 4, 8  # bits, in the order of protocol.ARRHYTHMIA_CLASSES
_ALL = _NORMAL | _AFIB | _PVC | _SVE
_V_BEATS, _S_BEATS = ("V", "E"), ("A", "a", "J", "S")  # AAMI classes
_AF_NOTES = ("(AFIB", "(AFL")


@dataclass(frozen=True)
class Annotations:
    """Annotations in time order: sample number, symbol and note of each."""

    sample: NDArray[np.int64]
    symbol: tuple[str, ...]
    aux_note: tuple[str, ...]


def label_windows(
    annotation: Annotations | None,
    sampling_rate: float,
    starts: Floats,
    seconds: float,
    dialect: str,
) -> tuple[Masks, Masks]:
    """Masks of the classes that each window may have; bit i is ARRHYTHMIA_CLASSES[i].

    A window is AFIB if an AFIB or AFL rhythm covers at least half of it; else PVC if it holds
    an AAMI V beat (V, E); else SVE if it holds an AAMI S beat (A, a, J, S); else Normal.

    Args:
        annotation: the record's annotations; None is treated like dialect "none".
        sampling_rate: Hz, of the annotations' sample numbers.
        starts: start of each window, s.
        seconds: length of a window.
        dialect: one of `databases.LABELS`.

    Returns:
        `strict`, every class that the annotations leave possible. "beats+rhythm": the label;
        AFIB besides, where no rhythm mark precedes the window. "beats": {AFIB, beat label}.
        "rhythm-comments": AFIB where covered; all four where `(N` ("not annotated") or nothing
        could make up half of the window; else {Normal, PVC, SVE}. "none": all four.
        `paper`, one class: what is not annotated counts as absent.
    """
    n = len(starts)
    if annotation is None or dialect == "none":
        return np.full(n, _ALL, np.uint8), np.full(n, _NORMAL, np.uint8)
    times = np.asarray(annotation.sample, dtype=np.float64) / sampling_rate
    beats = _beat_labels(annotation, times, starts, seconds)
    if dialect == "beats":
        return (beats | _AFIB).astype(np.uint8), beats
    return _with_rhythm(annotation, times, starts, seconds, beats, dialect == "rhythm-comments")


def _with_rhythm(
    annotation: Annotations,
    times: Floats,
    starts: Floats,
    seconds: float,
    beats: Masks,
    comments: bool,
) -> tuple[Masks, Masks]:
    notes = [note.replace("\0", "").strip() for note in annotation.aux_note]
    marker = '"' if comments else "+"
    marks = [i for i, s in enumerate(annotation.symbol) if s == marker and notes[i][:1] == "("]
    begins, names = times[marks], [notes[i] for i in marks]
    af = _covered(begins, [name in _AF_NOTES for name in names], starts, seconds)
    if comments:
        others = [name not in (*_AF_NOTES, "(N") for name in names]
        named = _covered(begins, others, starts, seconds) > 0.5 * seconds + 1e-9
        rest, beats = np.where(named, _ALL - _AFIB, _ALL), np.full(len(starts), _NORMAL)
    else:
        known = starts >= (begins[0] if len(begins) else np.inf)
        rest = np.where(known, beats, beats | _AFIB)
    afib = af >= 0.5 * seconds - 1e-9
    strict, paper = (np.where(afib, _AFIB, other) for other in (rest, beats))
    return strict.astype(np.uint8), paper.astype(np.uint8)


def _beat_labels(annotation: Annotations, times: Floats, starts: Floats, seconds: float) -> Masks:
    def holds(symbols: tuple[str, ...]) -> NDArray[np.bool_]:
        chosen = times[[i for i, s in enumerate(annotation.symbol) if s in symbols]]
        first, last = np.searchsorted(chosen, starts), np.searchsorted(chosen, starts + seconds)
        return np.asarray(last > first)

    labels = np.where(holds(_V_BEATS), _PVC, np.where(holds(_S_BEATS), _SVE, _NORMAL))
    return labels.astype(np.uint8)


def _covered(begins: Floats, chosen: Sequence[bool], starts: Floats, seconds: float) -> Floats:
    """Seconds of each window inside the chosen intervals; one lasts until the next begins."""
    if not len(begins) or not len(starts):
        return np.zeros(len(starts))
    end = max(float(begins[-1]), float(starts[-1]) + seconds)
    knots = np.append(begins, end)
    total = np.concatenate([[0.0], np.cumsum(np.diff(knots) * np.asarray(chosen, dtype=float))])
    before, after = np.interp(starts, knots, total), np.interp(starts + seconds, knots, total)
    return np.asarray(after - before, dtype=np.float64)
