"""The rhythm of a window: when its beats are, of which class, and whether the atria fibrillate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, find_peaks, sosfiltfilt

from common.anonymizers.contract import Labelled
from common.ecg.labels import BEAT_CLASSES
from common.protocol import ARRHYTHMIA_CLASSES

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

NORMAL, SUPRAVENTRICULAR, VENTRICULAR = (list(BEAT_CLASSES).index(name) for name in "NSV")
_AFIB = 1 << ARRHYTHMIA_CLASSES.index("AFIB")
_IRREGULAR = 0.12  # RMSSD over mean RR: above it, without ectopy, a rhythm is taken for AFIB
_REFRACTORY = 0.25  # s: the ventricles cannot beat faster


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


def rhythm_of(data: Labelled, window: int) -> Rhythm:
    """From the annotations where there are beats in the window, else from a detector.

    Fusion, paced and unclassified beats count as normal: they have no class of their own in the
    release.
    """
    seconds = data.x.shape[2] / data.rate
    time, kind = data.beats.of(window)
    if not len(time):
        time = find_beats(data.x[window, 0], data.rate)
        kind = premature(time)
    kind = np.where(np.isin(kind, (SUPRAVENTRICULAR, VENTRICULAR)), kind, NORMAL)
    allowed = int(data.allowed[window])
    known = allowed == _AFIB or not allowed & _AFIB
    fibrillates = allowed == _AFIB if known else irregular(time, kind)
    return Rhythm(time, kind, fibrillates, seconds)


def find_beats(lead: NDArray[np.float32], rate: float) -> Array:
    """R peaks of one lead, s: the energy of 5 to 20 Hz, a threshold and a refractory time.

    Source: the stages of Pan & Tompkins (1985), on a whole window at once.
    """
    sos = butter(2, (5.0, min(20.0, 0.45 * rate)), "bandpass", fs=rate, output="sos")
    band = sosfiltfilt(sos, lead - lead.mean())
    width = max(1, round(0.12 * rate))
    energy = np.convolve(band**2, np.ones(width) / width, "same")
    if energy.max() <= 0:
        return np.zeros(0)
    level = 0.25 * np.quantile(energy, 0.98)
    peaks, _ = find_peaks(energy, height=level, distance=max(1, round(_REFRACTORY * rate)))
    half = max(1, round(0.06 * rate))
    places = [max(0, p - half) + int(np.argmax(np.abs(band[max(0, p - half) : p + half + 1])))
              for p in peaks]
    return np.unique(places) / rate


def premature(time: Array) -> Ints:
    """NORMAL for each beat, SUPRAVENTRICULAR where it comes early and its rhythm is regular."""
    kind = np.full(len(time), NORMAL, dtype=np.int64)
    if len(time) < 4:
        return kind
    rr = np.diff(time)
    usual = np.median(rr)
    if np.median(np.abs(rr - usual)) < 0.06 * usual:
        kind[1:][rr < 0.85 * usual] = SUPRAVENTRICULAR
    return kind


def irregular(time: Array, kind: Ints) -> bool:
    """Whether RR intervals alternate as in fibrillation; ectopy explains irregularity."""
    rr = np.diff(time)
    if len(rr) < 4 or (kind != NORMAL).any():
        return False
    return float(np.sqrt(np.mean(np.diff(rr) ** 2)) / np.mean(rr)) > _IRREGULAR


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
