"""From beats to a window: shapes set in place, fibrillatory waves, recording noise, scaling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import butter, sosfiltfilt

from common.anonymizers.beat_cutting import placed, spline
from common.anonymizers.contract import Floats, Labelled
from common.anonymizers.rhythm import Rhythm

Array = NDArray[np.float64]

_WANDER = 0.5  # Hz: what is slower is baseline wander
_CALM = 0.75  # quantile of noise and wander above which a recording is not imitated


@dataclass(frozen=True)
class Levels:
    """How disturbed recordings are.

    Args:
        size: standard deviation of noise and of wander, in parts of the window's range, [n, 2].
        patient: whose, [n].
    """

    size: Array
    patient: NDArray[np.int64]

    def draw(self, patient: int, generator: np.random.Generator) -> Array:
        """Noise and wander of some window of another patient, [2]."""
        others = self.size[self.patient != patient]
        return np.asarray(others[generator.integers(len(others))])


def learn_levels(data: Labelled) -> Levels:
    """Noise by the median second difference, wander below 0.5 Hz, of the first lead."""
    sos = butter(2, _WANDER, fs=data.rate, output="sos")
    lead = np.asarray(data.x[:, 0], dtype=np.float64)  # (n, L)
    noise = np.median(np.abs(np.diff(lead, 2, axis=1)), axis=1) / (0.6745 * np.sqrt(6))
    wander = np.std(sosfiltfilt(sos, lead, axis=1), axis=1)
    size = np.stack([noise, wander], axis=1)
    return Levels(np.minimum(size, np.quantile(size, _CALM, axis=0)), data.patient)


def render(rhythm: Rhythm, shapes: Mapping[int, Array], disturbance: Array, shape: tuple[int, int],
           rate: float, generator: np.random.Generator) -> Floats:
    """One window in [0, 1].

    Args:
        rhythm: when which beats come.
        shapes: of each kind of beat, [leads, samples].
        disturbance: standard deviation of noise and wander in parts of the range, [2].
        shape: (leads, L).
        rate: Hz.
        generator: of noise, wander and fibrillatory waves.
    """
    leads, length = shape
    signal = np.zeros(shape)
    splines = {kind: spline(one) for kind, one in shapes.items()}
    following = np.append(np.diff(rhythm.time), rhythm.mean_rr)
    for time, kind, rr in zip(rhythm.time, rhythm.kind, following, strict=True):
        placed(signal, splines[kind], time, float(rr), rate)
    swing = np.ptp(signal, axis=1, keepdims=True) + 1e-6  # (leads, 1)
    noise, wander = disturbance
    if rhythm.fibrillates:
        signal += swing * _fibrillation(leads, length, rate, generator)
    signal += swing * wander * _slow(leads, length, rate, generator)
    signal += swing * noise * generator.standard_normal(shape)
    low, high = signal.min(1, keepdims=True), signal.max(1, keepdims=True)
    return np.asarray((signal - low) / np.maximum(high - low, 1e-12), dtype=np.float32)


def _fibrillation(leads: int, length: int, rate: float, generator: np.random.Generator) -> Array:
    """Fibrillatory waves of a window, [leads, L], in parts of its swing."""
    t = np.arange(length) / rate
    frequency = generator.uniform(4.5, 8.0) * (1 + 0.05 * np.sin(2 * np.pi * 0.3 * t))
    phase = 2 * np.pi * (np.cumsum(frequency) / rate + generator.random())
    size = generator.uniform(0.004, 0.025, (leads, 1))
    wave = np.sin(phase) + 0.4 * np.sin(2 * phase + generator.uniform(0, 2 * np.pi))
    swell = 1 + 0.4 * np.sin(2 * np.pi * (generator.uniform(0.15, 0.5) * t + generator.random()))
    return np.asarray(size * swell * wave)


def _slow(leads: int, length: int, rate: float, generator: np.random.Generator) -> Array:
    """Baseline wander of standard deviation 1, [leads, L]."""
    t = np.arange(length) / rate
    wander = np.zeros((leads, length))
    for frequency in generator.uniform(0.05, _WANDER, 3):
        size = generator.uniform(0.2, 1.0, (leads, 1))
        wander += size * np.sin(2 * np.pi * (frequency * t + generator.random((leads, 1))))
    return np.asarray(wander / (wander.std(axis=1, keepdims=True) + 1e-12))
