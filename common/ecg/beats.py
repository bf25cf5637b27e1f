"""Heartbeats of windows: when, and of which AAMI class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.ecg.labels import BEAT_CLASSES, Annotations

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Beats:
    """Beats of n windows, one window after the other.

    Args:
        first: beats of window i are first[i] to first[i + 1], [n + 1].
        time: of each beat's R peak, s from the window's start.
        kind: index into `labels.BEAT_CLASSES`.
    """

    first: Ints
    time: Floats
    kind: Ints

    def __len__(self) -> int:
        return len(self.first) - 1

    def of(self, window: int) -> tuple[Floats, Ints]:
        """Times (s) and kinds of one window's beats."""
        rows = slice(self.first[window], self.first[window + 1])
        return self.time[rows], self.kind[rows]

    def select(self, rows: Ints) -> Beats:
        """The beats of some windows."""
        counts = np.diff(self.first)[rows]
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        at = np.repeat(self.first[:-1][rows] - first[:-1], counts) + np.arange(first[-1])
        return Beats(first, self.time[at], self.kind[at])


def no_beats(windows: int) -> Beats:
    """Nothing is annotated."""
    return Beats(np.zeros(windows + 1, np.int64), np.zeros(0), np.zeros(0, np.int64))


def join(parts: Sequence[Beats]) -> Beats:
    """The beats of windows that follow each other."""
    ends = np.cumsum([0, *(len(part.time) for part in parts)])
    first = [part.first[:-1] + end for part, end in zip(parts, ends, strict=False)]
    return Beats(np.concatenate([*first, ends[-1:]]).astype(np.int64),
                 np.concatenate([np.zeros(0), *(part.time for part in parts)]),
                 np.concatenate([np.zeros(0, np.int64), *(part.kind for part in parts)]))


def beats_in(annotation: Annotations | None, sampling_rate: float, starts: Floats,
             seconds: float) -> Beats:
    """The annotated beats of windows.

    Args:
        annotation: of the record; None: no beat.
        sampling_rate: Hz, of the annotations' sample numbers.
        starts: start of each window, s, rising.
        seconds: length of a window.
    """
    if annotation is None:
        return no_beats(len(starts))
    kinds = np.full(len(annotation.symbol), -1, dtype=np.int64)
    for kind, symbols in enumerate(BEAT_CLASSES.values()):
        kinds[np.isin(annotation.symbol, symbols)] = kind
    chosen = np.flatnonzero(kinds >= 0)
    time = np.asarray(annotation.sample[chosen], dtype=np.float64) / sampling_rate
    low, high = np.searchsorted(time, starts), np.searchsorted(time, starts + seconds)
    counts = high - low
    first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.repeat(low - first[:-1], counts) + np.arange(first[-1])
    return Beats(first, time[at] - np.repeat(starts, counts), kinds[chosen][at])
