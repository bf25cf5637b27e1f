"""Shapes of beats: each patient's mean per class, and means over groups of patients alike.

A group is a randomly chosen patient and those whose shapes are most like theirs: averaging people
who are alike keeps waves sharp, as microaggregation does (Domingo-Ferrer & Mateo-Sanz, 2002).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.anonymizers.beat_classifier import NORMAL, SUPRAVENTRICULAR, VENTRICULAR
from common.anonymizers.beat_cutting import P_ENDS, mean_beat, since_r
from common.anonymizers.contract import Labelled
from common.anonymizers.rhythm import Rhythm
from common.errors import InputError

Array = NDArray[np.float64]

_LEAST = 3  # patients whose shapes make one, where so many have the class
_RARE = 4  # of a rarer class, no more than one in so many of those who have it


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
        else:
            group = min(group, max(_LEAST, len(others) // _RARE))
        alike = _likeness(shapes, shapes[generator.choice(seeds)])
        return _mean(shapes[np.argsort(-alike, kind="stable")[:group]], generator)

    def draw_premature(self, normal: Array, patient: int, group: int,
                       generator: np.random.Generator) -> Array:
        """A supraventricular shape for a window whose normal beats have the shape `normal`.

        The QRS complex is nearly that of the normal beats; the P wave is another. So what is drawn
        is the change that such beats make in other patients; without any, the P wave is left out.
        """
        bare = without_p(normal, self.rate)
        owners = np.intersect1d(self.owners.get(SUPRAVENTRICULAR, []), self.owners[NORMAL])
        owners = owners[owners != patient]
        if not len(owners):
            return bare
        chosen = generator.permutation(owners)[:min(group, max(_LEAST, len(owners) // _RARE))]
        shapes = [self.shapes[SUPRAVENTRICULAR][self.owners[SUPRAVENTRICULAR] == one][0]
                  - self.shapes[NORMAL][self.owners[NORMAL] == one][0] for one in chosen]
        t = since_r(normal.shape[1], self.rate)
        own = np.clip((t + 0.24) / 0.06, 0.0, 1.0)  # earlier lies the T wave of the beat before
        return np.asarray(normal * own + _mean(np.stack(shapes), generator) * own)


def _mean(shapes: Array, generator: np.random.Generator) -> Array:
    weights = generator.dirichlet(np.full(len(shapes), 4.0))
    return np.asarray(np.tensordot(weights, shapes, axes=1))


def _likeness(shapes: Array, one: Array) -> Array:
    """Correlation of shapes [n, leads, samples] with one of them, [n]."""
    flat, other = shapes.reshape(len(shapes), -1), one.ravel()
    norms = np.linalg.norm(flat, axis=1) * np.linalg.norm(other) + 1e-12
    return np.asarray(flat @ other / norms)


def without_p(shape: Array, rate: float) -> Array:
    """A shape without what comes before its QRS complex."""
    t = since_r(shape.shape[1], rate)
    return np.asarray(shape * np.clip((t + P_ENDS + 0.03) / 0.03, 0.0, 1.0))


def learn_shapes(data: Labelled, rhythms: Sequence[Rhythm]) -> ShapeBank:
    """Each patient's mean shape of each class, from the windows that are theirs.

    Raises:
        InputError: fewer than two patients have normal beats: nobody could be given another's.
    """
    shapes: dict[int, list[Array]] = {}
    owners: dict[int, list[int]] = {}
    for patient in np.unique(data.patient):
        mine = np.flatnonzero(data.patient == patient)
        for kind in (NORMAL, SUPRAVENTRICULAR, VENTRICULAR):
            shape = mean_beat(data, mine, rhythms, kind)
            if shape is not None:
                shapes.setdefault(kind, []).append(shape)
                owners.setdefault(kind, []).append(int(patient))
    if len(owners.get(NORMAL, [])) < 2:
        raise InputError(f"patients with normal beats are {len(owners.get(NORMAL, []))}; allowed "
                         "are 2 or more")
    return ShapeBank({kind: np.stack(found) for kind, found in shapes.items()},
                     {kind: np.array(found) for kind, found in owners.items()}, data.rate)
