"""Surrogate: a window written anew from when its beats were and what they were.

One of two honest extremes that frame the trade-off. Nothing of the waveform is released: every
beat gets a shape of its AAMI class that is the mean over a group of *other* patients, drawn anew
for each window. What is left of the patient is the rhythm: beat classes, and RR intervals, whose
mean is drawn from those of all patients in training with `rate="randomise"`.

Some drawings do not show what they stand for, such as a supraventricular beat at a rate at which
it is no longer early. A panel of networks reads each window, and one that it does not read as the
rhythm's own arrhythmia is drawn again. With many tries, this writes the label into the waveform:
diagnosis may then be easier than on the original, which is a property of the method and no sign
that something was kept.

No source: it is the resynthesis that k-anonymous release suggests. QT scales with the square root
of RR (Bazett, 1920); fibrillatory waves have 4 to 9 Hz.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.anonymizers.beat_classifier import NORMAL, SUPRAVENTRICULAR, VENTRICULAR, BeatClassifier
from common.anonymizers.beat_shapes import learn_shapes, without_p
from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range
from common.anonymizers.rendering import learn_levels, render
from common.anonymizers.rhythm import Rhythm, another_rate, rhythm_of
from common.anonymizers.surrogate_panel import fit_panel
from common.errors import InputError

Array = NDArray[np.float64]

_CLEAR = 0.9  # probability from which a drawing is good enough


class Surrogate:
    """Population resynthesis.

    Args:
        rate: "keep", or "randomise": each window's RR intervals are scaled to a mean drawn from
            the patients in training.
        group: patients whose mean shapes make one beat shape.
        noise: of the recording noise and wander of some other patient's window, which part.
        spread: how far toward the drawn rate a randomised one goes, 0 to 1.
        tries: drawings of a window until the panel reads it as its arrhythmia; 1: no panel.
    """

    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {
        "group": Range(3, 15), "noise": Range(0.1, 1.0), "spread": Range(0.5, 1.0),
        "tries": Range(1, 32)}

    def __init__(self, rate: str = "randomise", group: float = 5, noise: float = 0.5,
                 spread: float = 1.0, tries: float = 16) -> None:
        if rate not in ("keep", "randomise"):
            raise InputError(f"rate is {rate!r}; allowed: keep, randomise")
        if not 0 <= spread <= 1:
            raise InputError(f"spread is {spread}; allowed is 0 to 1")
        self.rate, self.noise, self.spread = rate, noise, spread
        self.group, self.tries = max(1, round(group)), max(1, round(tries))
        self.name = "surrogate" if rate == "randomise" else "surrogate_rate_kept"

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Learn the beat classifier, each patient's mean shapes and RR, and the panel."""
        self.classifier = BeatClassifier(train, effort.seed)
        rhythms = [rhythm_of(train, i, self.classifier) for i in range(len(train))]
        self.bank, self.levels = learn_shapes(train, rhythms), learn_levels(train)
        means = np.array([rhythm.mean_rr for rhythm in rhythms])
        self.rates = np.array([np.median(means[train.patient == p])
                               for p in np.unique(train.patient)])
        self.panel = fit_panel(train, frozen, effort) if self.tries > 1 else None

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] in [0, 1], each lead of each window from 0 to 1."""
        generator = np.random.default_rng(seed)
        rhythms = [rhythm_of(data, i, self.classifier) for i in range(len(data))]
        arrhythmia = np.array([rhythm.arrhythmia for rhythm in rhythms], dtype=np.int64)
        out, best = np.empty_like(data.x), np.full(len(data), -1.0)
        for _ in range(self.tries):
            rows = np.flatnonzero(best < _CLEAR)
            drawn = np.empty((len(rows), *data.x.shape[1:]), dtype=np.float32)
            for k, i in enumerate(rows.tolist()):
                drawn[k] = self._draw(rhythms[i], int(data.patient[i]), data, generator)
            clarity = (self.panel.clarity(drawn, arrhythmia[rows]) if self.panel
                       else np.ones(len(rows)))
            better = clarity > best[rows]
            out[rows[better]], best[rows[better]] = drawn[better], clarity[better]
        return out

    def _draw(self, rhythm: Rhythm, patient: int, data: Labelled,
              generator: np.random.Generator) -> Floats:
        """One drawing of a window, [leads, L]."""
        if self.rate == "randomise":
            drawn, own = float(generator.choice(self.rates)), rhythm.mean_rr
            rhythm = another_rate(rhythm, own * (drawn / own) ** self.spread, generator)
        disturbance = self.noise * self.levels.draw(patient, generator)
        leads, length = data.x.shape[1:]
        return render(rhythm, self._shapes(rhythm, patient, generator), disturbance,
                      (leads, length), data.rate, generator)

    def _shapes(self, rhythm: Rhythm, patient: int,
                generator: np.random.Generator) -> dict[int, Array]:
        """The shape of each kind of beat that there is in one window."""
        normal = self.bank.draw(NORMAL, patient, self.group, generator)
        if rhythm.fibrillates:
            normal = without_p(normal, self.bank.rate)
        shapes = {NORMAL: normal}
        if VENTRICULAR in rhythm.kind:
            shapes[VENTRICULAR] = self.bank.draw(VENTRICULAR, patient, self.group, generator)
        if SUPRAVENTRICULAR in rhythm.kind:
            shapes[SUPRAVENTRICULAR] = normal if rhythm.fibrillates else self.bank.draw_premature(
                normal, patient, self.group, generator)
        return shapes
