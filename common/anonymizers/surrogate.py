"""Surrogate: a window written anew from when its beats were and what they were.

One of two honest extremes that frame the trade-off. Nothing of the waveform is released: every
beat gets a shape of its AAMI class that is the mean over a group of *other* patients, drawn anew
for each window. What is left of the patient is the rhythm: beat classes, and RR intervals, whose
mean is another's with `rate="randomise"`.

No source: it is the resynthesis that k-anonymous release suggests. QT scales with the square root
of RR (Bazett, 1920); fibrillatory waves have 4 to 9 Hz.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.anonymizers.beat_shapes import learn_shapes, placed, without_p
from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range
from common.anonymizers.rhythm import (
    NORMAL,
    SUPRAVENTRICULAR,
    VENTRICULAR,
    Rhythm,
    another_rate,
    rhythm_of,
)
from common.errors import InputError

Array = NDArray[np.float64]


class Surrogate:
    """Population resynthesis.

    Args:
        rate: "keep", or "randomise": each window's RR intervals are scaled to a mean drawn from
            the patients in training.
        group: patients whose mean shapes make one beat shape.
        noise: standard deviation of the recording noise, in the window's range.
    """

    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {"group": Range(4, 20), "noise": Range(0.001, 0.02)}

    def __init__(self, rate: str = "randomise", group: float = 10, noise: float = 0.004) -> None:
        if rate not in ("keep", "randomise"):
            raise InputError(f"rate is {rate!r}; allowed: keep, randomise")
        self.rate, self.group, self.noise = rate, max(1, round(group)), noise
        self.name = "surrogate" if rate == "randomise" else "surrogate_rate_kept"

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Learn each patient's mean shape of each beat class, and the mean RR of each."""
        rhythms = [rhythm_of(train, i) for i in range(len(train))]
        self.bank = learn_shapes(train, rhythms)
        means = np.array([rhythm.mean_rr for rhythm in rhythms])
        self.rates = np.array([np.median(means[train.patient == p])
                               for p in np.unique(train.patient)])

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] in [0, 1], each lead of each window from 0 to 1."""
        generator = np.random.default_rng(seed)
        out = np.empty_like(data.x)
        for i in range(len(data)):
            rhythm = rhythm_of(data, i)
            if self.rate == "randomise":
                rhythm = another_rate(rhythm, float(generator.choice(self.rates)), generator)
            out[i] = self._render(rhythm, int(data.patient[i]), data, generator)
        return out

    def _shapes(self, rhythm: Rhythm, patient: int,
                generator: np.random.Generator) -> dict[int, Array]:
        """The shape of each kind of beat in one window.

        A supraventricular beat has the QRS complex of the normal ones, without their P wave.
        """
        normal = self.bank.draw(NORMAL, patient, self.group, generator)
        bare = without_p(normal, self.bank.rate)
        return {NORMAL: bare if rhythm.fibrillates else normal, SUPRAVENTRICULAR: bare,
                VENTRICULAR: self.bank.draw(VENTRICULAR, patient, self.group, generator)}

    def _render(self, rhythm: Rhythm, patient: int, data: Labelled,
                generator: np.random.Generator) -> Floats:
        """One window, [leads, L]."""
        leads, length = data.x.shape[1:]
        signal = np.zeros((leads, length))
        shapes = self._shapes(rhythm, patient, generator)
        following = np.append(np.diff(rhythm.time), rhythm.mean_rr)
        for time, kind, rr in zip(rhythm.time, rhythm.kind, following, strict=True):
            placed(signal, shapes[kind], time, float(rr), data.rate)
        swing = np.ptp(signal, axis=1, keepdims=True) + 1e-6  # (leads, 1)
        if rhythm.fibrillates:
            signal += swing * _fibrillation(leads, length, data.rate, generator)
        signal += swing * _disturbance(leads, length, data.rate, self.noise, generator)
        low, high = signal.min(1, keepdims=True), signal.max(1, keepdims=True)
        return np.asarray((signal - low) / (high - low), dtype=np.float32)


def _fibrillation(leads: int, length: int, rate: float, generator: np.random.Generator) -> Array:
    """Fibrillatory waves of a window, [leads, L], in parts of its swing."""
    t = np.arange(length) / rate
    frequency = generator.uniform(4.5, 8.0) * (1 + 0.05 * np.sin(2 * np.pi * 0.3 * t))
    phase = 2 * np.pi * (np.cumsum(frequency) / rate + generator.random())
    size = generator.uniform(0.006, 0.025, (leads, 1))
    wave = np.sin(phase) + 0.4 * np.sin(2 * phase + generator.uniform(0, 2 * np.pi))
    swell = 1 + 0.4 * np.sin(2 * np.pi * (generator.uniform(0.15, 0.5) * t + generator.random()))
    return np.asarray(size * swell * wave)


def _disturbance(leads: int, length: int, rate: float, noise: float,
                 generator: np.random.Generator) -> Array:
    """Baseline wander and recording noise of a window, [leads, L], in parts of its swing."""
    t = np.arange(length) / rate
    wander = np.zeros((leads, length))
    for frequency in generator.uniform(0.05, 0.5, 3):
        size = generator.uniform(0, 0.02, (leads, 1))
        wander += size * np.sin(2 * np.pi * (frequency * t + generator.random((leads, 1))))
    white = generator.standard_normal((leads, length + 2))
    smooth = (white[:, :-2] + white[:, 1:-1] + white[:, 2:]) / np.sqrt(3)
    return np.asarray(wander + noise * generator.uniform(0.3, 1.7) * smooth)
