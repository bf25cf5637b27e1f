"""The rhythm of a window: when its beats are, of which class, and whether the atria fibrillate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.anonymizers.beat_classifier import (
    NORMAL,
    SUPRAVENTRICULAR,
    VENTRICULAR,
    BeatClassifier,
    irregular,
)
from common.anonymizers.contract import Labelled
from common.ecg.delineation import r_peaks
from common.protocol import ARRHYTHMIA_CLASSES

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_CLASS = {name: ARRHYTHMIA_CLASSES.index(name) for name in ("Normal", "AFIB", "PVC", "SVE")}
_AFIB = 1 << _CLASS["AFIB"]


@dataclass(frozen=True)
class Rhythm:
    """Beats of one window.

    Args:
        time: of each R peak, s.
        kind: NORMAL, SUPRAVENTRICULAR or VENTRICULAR.
        fibrillates: atrial fibrillation: no P waves, fibrillatory waves instead.
        seconds: length of the window.
    """

    time: Array
    kind: Ints
    fibrillates: bool
    seconds: float

    @property
    def mean_rr(self) -> float:
        """Mean RR interval, s; 0.8 where there are fewer than two beats."""
        return float(np.mean(np.diff(self.time))) if len(self.time) > 1 else 0.8

    @property
    def arrhythmia(self) -> int:
        """Index into ARRHYTHMIA_CLASSES, by the order of `ecg.labels.label_windows`."""
        if self.fibrillates:
            return _CLASS["AFIB"]
        if VENTRICULAR in self.kind:
            return _CLASS["PVC"]
        return _CLASS["SVE" if SUPRAVENTRICULAR in self.kind else "Normal"]


def rhythm_of(data: Labelled, window: int, classifier: BeatClassifier) -> Rhythm:
    """From the annotations where there are beats in the window, else from detector and classifier.

    Fusion, paced and unclassified beats count as normal: they have no class of their own in the
    release.
    """
    seconds = data.x.shape[2] / data.rate
    time, kind = data.beats.of(window)
    if not len(time):
        time = r_peaks(data.x[window, 0], data.rate)
        kind = classifier.classify(data.x[window, 0], time, data.rate)
    kind = np.where(np.isin(kind, (SUPRAVENTRICULAR, VENTRICULAR)), kind, NORMAL)
    allowed = int(data.allowed[window])
    known = allowed == _AFIB or not allowed & _AFIB
    fibrillates = allowed == _AFIB if known else irregular(time, kind)
    return Rhythm(time, kind, fibrillates, seconds)


def another_rate(rhythm: Rhythm, mean_rr: float, generator: np.random.Generator) -> Rhythm:
    """The same sequence of beats at another mean RR (s), cut to the window again.

    A faster rate needs more beats than there are: the sequence goes round. It starts before an
    ectopic beat where there is one, so that a slower rate does not lose it.
    """
    n = len(rhythm.time)
    if n < 2:
        return rhythm
    scale = np.clip(mean_rr / rhythm.mean_rr, 0.5, 2.0)
    rr = np.append(rhythm.mean_rr, np.diff(rhythm.time)) * scale  # RR before each beat
    ectopic = np.flatnonzero(rhythm.kind != NORMAL)
    first = int(generator.integers(n))
    if len(ectopic):
        first = int(generator.choice(ectopic)) - int(generator.integers(1, 4))
    count = int(rhythm.seconds / (rr.min() + 1e-3)) + 2
    order = (first + np.arange(count)) % n
    time = np.cumsum(rr[order]) - rr[order[0]] + generator.uniform(0.0, rr[order[0]])
    inside = time < rhythm.seconds
    return Rhythm(time[inside], rhythm.kind[order][inside], rhythm.fibrillates, rhythm.seconds)
