"""Shapes of beats: each patient's mean per class, and means over groups of patients alike.

A group is a randomly chosen patient and those whose shapes are most like theirs: averaging people
who are alike keeps waves sharp, as microaggregation does (Domingo-Ferrer & Mateo-Sanz, 2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.anonymizers.contract import Labelled
from common.anonymizers.rhythm import NORMAL, VENTRICULAR, Rhythm
from common.errors import InputError

Array = NDArray[np.float64]

BEFORE, AFTER = 0.30, 0.52  # s around the R peak that make a shape
_P_ENDS = 0.07  # s before R: without a P wave nothing earlier is left
_QRS_ENDS = 0.10  # s after R: what follows scales with the root of RR
_USUAL_RR = 0.8  # s at which shapes are kept
_FADE = 0.08  # s at either end
_FEW = 3  # beats below which a patient's mean is too noisy to count


@dataclass(frozen=True)
class ShapeBank:
    """Mean shapes, [patients, leads, samples], and whose they are, per beat class."""

    shapes: dict[int, Array]
    owners: dict[int, NDArray[np.int64]]
    rate: float

    def draw(self, kind: int, patient: int, group: int, generator: np.random.Generator) -> Array:
        """The mean shape of `group` patients other than `patient`, [leads, samples].

        A class that nobody else has is drawn as normal beats, so that nothing of the patient is
        ever released.
        """
        if not np.any(self.owners.get(kind, np.array([patient])) != patient):
            kind = NORMAL
        others = np.flatnonzero(self.owners[kind] != patient)
        shapes = self.shapes[kind][others]  # (patients, leads, samples)
        seeds = np.arange(len(others))
        if kind == NORMAL:  # bundle branch blocks and paced beats are rare, and look like ectopy
            likeness = _likeness(shapes, shapes.mean(axis=0))
            seeds = np.flatnonzero(likeness >= np.median(likeness))
        alike = _likeness(shapes, shapes[generator.choice(seeds)])
        chosen = np.argsort(-alike, kind="stable")[:group]
        weights = generator.dirichlet(np.full(len(chosen), 4.0))
        return np.asarray(np.tensordot(weights, shapes[chosen], axes=1))


def _likeness(shapes: Array, one: Array) -> Array:
    """Correlation of shapes [n, leads, samples] with one of them, [n]."""
    flat, other = shapes.reshape(len(shapes), -1), one.ravel()
    norms = np.linalg.norm(flat, axis=1) * np.linalg.norm(other) + 1e-12
    return np.asarray(flat @ other / norms)


def without_p(shape: Array, rate: float) -> Array:
    """A shape without what comes before its QRS complex."""
    return np.asarray(shape * _ramp(shape.shape[1], rate))


def _ramp(samples: int, rate: float) -> Array:
    """0 before the QRS complex, 1 from it on, [samples]."""
    t = np.arange(samples) / rate - BEFORE
    return np.clip((t + _P_ENDS + 0.03) / 0.03, 0.0, 1.0)


def learn_shapes(data: Labelled, rhythms: Sequence[Rhythm]) -> ShapeBank:
    """Each patient's mean shape of each class, from the windows that are theirs.

    Raises:
        InputError: fewer than two patients have normal beats: nobody could be given another's.
    """
    shapes: dict[int, list[Array]] = {}
    owners: dict[int, list[int]] = {}
    for patient in np.unique(data.patient):
        mine = np.flatnonzero(data.patient == patient)
        for kind in (NORMAL, VENTRICULAR):
            beats = [beat for i in mine.tolist() for beat in _beats(data, i, rhythms[i], kind)]
            if len(beats) >= _FEW:
                shapes.setdefault(kind, []).append(np.mean(beats, axis=0))
                owners.setdefault(kind, []).append(int(patient))
    if len(owners.get(NORMAL, [])) < 2:
        raise InputError(f"patients with normal beats are {len(owners.get(NORMAL, []))}; allowed "
                         "are 2 or more")
    return ShapeBank({kind: np.stack(found) for kind, found in shapes.items()},
                     {kind: np.array(found) for kind, found in owners.items()}, data.rate)


def _beats(data: Labelled, window: int, rhythm: Rhythm, kind: int) -> list[Array]:
    """Beats of a class in one window, [leads, samples] each, faded to 0 at both ends.

    Each is set on its R peak (the largest deflection within 50 ms of the annotation), read at the
    RR of `_USUAL_RR`, and measured by the height of the window's normal beats: a ventricular beat
    keeps its size beside them.
    """
    x = np.asarray(data.x[window], dtype=np.float64)
    x = x - np.median(x, axis=1, keepdims=True)
    x /= _height(x, rhythm, data.rate)
    found = []
    following = np.append(np.diff(rhythm.time), rhythm.mean_rr)
    for time, rr in zip(rhythm.time[rhythm.kind == kind], following[rhythm.kind == kind],
                        strict=True):
        near = round(0.05 * data.rate)
        at = round(time * data.rate)
        low, high = max(0, at - near), min(x.shape[1], at + near + 1)
        if high <= low:
            continue
        peak = low + int(np.argmax(np.abs(x[0, low:high])))
        grid = _stretched(float(rr), data.rate) + peak / data.rate  # s
        if grid[0] >= 0 and grid[-1] <= (x.shape[1] - 1) / data.rate:
            t = np.arange(x.shape[1]) / data.rate
            found.append(np.stack([np.interp(grid, t, lead) for lead in x]) * _fades(data.rate))
    return found


def _height(x: Array, rhythm: Rhythm, rate: float) -> Array:
    """Median peak-to-peak of the QRS of normal beats, else of all beats, [leads, 1]."""
    chosen = rhythm.time[rhythm.kind == NORMAL]
    chosen = chosen if len(chosen) else rhythm.time
    near = max(1, round(_QRS_ENDS * rate))
    spans = [x[:, max(0, at - near) : at + near + 1] for at in
             np.rint(chosen * rate).astype(int).tolist()]
    heights = [np.ptp(span, axis=1) for span in spans if span.shape[1]]
    return np.median(heights, axis=0)[:, None] + 1e-6 if heights else np.ones((len(x), 1))


def _times(rate: float) -> Array:
    return np.arange(round((BEFORE + AFTER) * rate)) / rate - BEFORE


def _stretch(rr: float) -> float:
    return float(np.clip(np.sqrt(rr / _USUAL_RR), 0.7, 1.25))


def _stretched(rr: float, rate: float) -> Array:
    """Where in a beat that has this RR the samples of a usual one lie, s from R."""
    t = _times(rate)
    return np.where(t > _QRS_ENDS, _QRS_ENDS + (t - _QRS_ENDS) * _stretch(rr), t)


def _fades(rate: float) -> Array:
    t = _times(rate)
    edge = np.minimum(t + BEFORE, AFTER - t) / _FADE
    return np.asarray(0.5 - 0.5 * np.cos(np.pi * np.clip(edge, 0.0, 1.0)))


def placed(signal: Array, shape: Array, time: float, rr: float, rate: float) -> None:
    """Add a shape [leads, samples] to a signal [leads, L] at an R peak (s) that an RR follows."""
    grid = _stretched(rr, rate)
    first = max(0, int(np.ceil((time + grid[0]) * rate)))
    last = min(signal.shape[1], int((time + grid[-1]) * rate) + 1)
    if last <= first:
        return
    at = np.arange(first, last) / rate - time
    for lead, values in zip(signal, shape, strict=True):
        lead[first:last] += np.interp(at, grid, values)
