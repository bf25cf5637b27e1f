"""Signal quality: which samples of a record no window may hold, and which windows are no ECG."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.ecg.recording import Recording

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

FLAT_SECONDS = 1.0  # of one constant value: an electrode is off
CLIP_SECONDS = 0.02  # at a lead's own largest or smallest value: an amplifier cut the wave
CLIP_SAMPLES = 3  # ... and as many samples at least: two alike are no plateau at 128 Hz
LOW, HIGH = 0.05, 20.0  # mV, allowed peak-to-peak of a window
# A window counts under the first that applies.
REASONS = ("missing", "unreadable", "flat", "saturated", "clipped", "out of range")


def bad_samples(read: Recording) -> dict[str, Bools]:
    """{reason: [n]} for every reason but "out of range"; only those that the record has.

    "missing": the file has no value. "unreadable": between a WFDB signal-quality mark (`~`) that
    says so of all signals and the next such mark. "flat": one value for a second or longer.
    "saturated": at the end of the converter's range. "clipped": at the lead's largest or smallest
    value, where it stays there for 20 ms and 3 samples or longer (below a second) at least once.
    """
    missing = [_missing(row) for row in read.signal]
    found: dict[str, Bools | None] = {
        "missing": _any_lead(missing),
        "unreadable": _unreadable(read),
        "flat": _any_lead([_flat(row, read.sampling_rate) for row in read.signal]),
        "saturated": None if read.saturated is None else _any_lead([*read.saturated]),
        "clipped": _any_lead([_clipped(row if mask is None else row[~mask], row,
                                       read.sampling_rate)
                              for row, mask in zip(read.signal, missing, strict=True)]),
    }
    return {reason: mask for reason, mask in found.items() if mask is not None and mask.any()}


def out_of_range(low: Floats, high: Floats) -> Bools:
    """Whether a window's peak-to-peak (mV) is one that no ECG has."""
    return np.asarray((high - low < LOW) | (high - low > HIGH))


def _any_lead(masks: Sequence[Bools | None]) -> Bools | None:
    known = [mask for mask in masks if mask is not None]
    return np.logical_or.reduce(known) if known else None


def _missing(row: Floats) -> Bools | None:
    return np.isnan(row) if math.isnan(row.sum()) else None  # one NaN makes the sum one


def _unreadable(read: Recording) -> Bools | None:
    marks = read.annotations
    if marks is None:
        return None
    quality = np.flatnonzero(marks.symbol == "~")
    if not (marks.subtype[quality] == -1).any():
        return None
    mask = np.zeros(read.signal.shape[1], dtype=bool)
    ends = [*(int(marks.sample[i]) for i in quality[1:]), len(mask)]
    for i, end in zip(quality, ends, strict=True):
        if marks.subtype[i] == -1:
            mask[int(marks.sample[i]) : end] = True
    return mask


def _flat(row: Floats, rate: float) -> Bools | None:
    """Samples of runs that keep one value for a second or longer."""
    block = max(1, int(FLAT_SECONDS * rate) // 2)  # such a run holds a block without a change
    changed = row[1:] != row[:-1]
    if changed[: len(changed) // block * block].reshape(-1, block).any(axis=1).all():
        return None
    mask = np.zeros(len(row), dtype=bool)
    edges = np.concatenate([[0], np.flatnonzero(changed) + 1, [len(row)]])
    for i in np.flatnonzero(np.diff(edges) >= FLAT_SECONDS * rate):
        mask[edges[i] : edges[i + 1]] = True
    return mask


def _clipped(known: Floats, row: Floats, rate: float) -> Bools | None:
    """Samples at the lead's extremes, if it ever stays at one long enough to be cut there."""
    extremes = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    if extremes[0] == extremes[1]:
        return None
    mask = None
    for extreme in extremes:
        at = np.flatnonzero(row == extreme)
        runs = np.diff(np.flatnonzero(np.diff(at, prepend=-2, append=len(row) + 1) != 1))
        runs = runs[runs < FLAT_SECONDS * rate]  # longer ones are no sign of a cut wave
        if runs.max(initial=0) >= max(CLIP_SAMPLES, CLIP_SECONDS * rate):
            mask = np.zeros(len(row), dtype=bool) if mask is None else mask
            mask[at] = True
    return mask
