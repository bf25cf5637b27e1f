"""The sets that the REAN paper (arXiv:2607.06037, section IV-A) evaluates and trains on.

Every set is drawn from windows whose class is decided, of patients that are not reserved. The same
rows and seed (0 or more) give the same set in any process; the sets of one seed are independent.

All functions take `index`, rows of dtype `store.INDEX`, [n], and `classes`, [n], the index of each
row's class in ARRHYTHMIA_CLASSES or -1 where undecided. Those that draw return rows, ascending, and
raise InputError for a `size` below 1, a `seed` below 0, unequal lengths or an unknown class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.protocol import ARRHYTHMIA_CLASSES, PARTS, SEXES

Index = NDArray[Any]  # [n], of dtype `store.INDEX`
Indices = NDArray[np.int64]
Classes = NDArray[np.integer]  # [n], index into ARRHYTHMIA_CLASSES, -1 where undecided

_SVE, _LAST = ARRHYTHMIA_CLASSES.index("SVE"), len(ARRHYTHMIA_CLASSES) - 1
_SHARED, _NATURAL, _BALANCED, _TRAINING = range(4)  # a set's own stream of random numbers


def shared_set(index: Index, classes: Classes, seed: int, size: int = 500) -> Indices:
    """The shared 500-window set: test windows, half of men's, with the same classes in both sexes.

    A class's share is its prevalence over the windows of both sexes that could be drawn, rounded
    by largest remainders within each sex. A class short in a sex cedes its places to that sex's
    other classes; a sex that is short cedes none.

    Args:
        size: windows in all; of an odd size, men get the odd one.

    Returns:
        [sum over sexes of min(places of the sex, its windows)].
    """
    rows = _candidates(index, classes, seed, "test", size)
    rows = rows[index["sex"][rows] >= 0]
    prevalence = _count(classes[rows])
    groups: list[tuple[Indices, int]] = []
    for sex in range(len(SEXES)):
        places = (size + 1 - sex) // len(SEXES)
        own = _by_class(rows[index["sex"][rows] == sex], classes)
        groups += zip(own, _fill(places, prevalence, own), strict=True)
    return _draw(groups, seed, _SHARED)


def natural_subset(index: Index, classes: Classes, seed: int, size: int = 20_000) -> Indices:
    """The 20,000-window subset of the test split: drawn uniformly, which keeps the prevalence.

    Args:
        size: windows in all.

    Returns:
        [min(size, available)].
    """
    rows = _candidates(index, classes, seed, "test", size)
    return _draw([(rows, min(size, len(rows)))], seed, _NATURAL)


def balanced_set(index: Index, classes: Classes, seed: int, rare: int = _SVE) -> Indices:
    """The SVE-enriched set: all test windows of the rare class, and as many of each other class.

    Args:
        rare: index of the rare class.

    Returns:
        [sum over classes of min(windows of the rare class, of the class)].

    Raises:
        InputError: also where `rare` is no class.
    """
    if not 0 <= rare <= _LAST:
        raise InputError(f"rare is {rare}; allowed is 0 to {_LAST}")
    own = _by_class(_candidates(index, classes, seed, "test"), classes)
    return _draw([(rows, min(len(own[rare]), len(rows))) for rows in own], seed, _BALANCED)


def balanced_training_set(index: Index, classes: Classes, seed: int, size: int = 30_000) -> Indices:
    """The training subsample: as many of each class; what one lacks, the others share equally.

    Args:
        size: windows in all.

    Returns:
        [min(size, available)].
    """
    own = _by_class(_candidates(index, classes, seed, "train", size), classes)
    counts = _fill(size, np.ones(len(own), dtype=np.int64), own)
    return _draw(list(zip(own, counts, strict=True)), seed, _TRAINING)


def composition(index: Index, classes: Classes, rows: Indices) -> dict[str, Any]:
    """Count what was drawn: windows, patients, windows of men and of women, and of each class."""
    sex, counts = index["sex"][rows], _count(classes[rows])
    men, women = (int(np.sum(sex == SEXES.index(name))) for name in ("M", "F"))
    patients = len(np.unique(index["patient"][rows]))
    named = dict(zip(ARRHYTHMIA_CLASSES, counts.tolist(), strict=True))
    return dict(windows=len(rows), patients=patients, men=men, women=women, classes=named)


def _candidates(index: Index, classes: Classes, seed: int, part: str, size: int = 1) -> Indices:
    for name, value, least in (("size", size, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name} is {value}; allowed is {least} or more")
    if len(classes) != len(index):
        raise InputError(f"classes has {len(classes)} rows; allowed is {len(index)}, as in index")
    if len(classes) and not -1 <= classes.min() <= classes.max() <= _LAST:
        raise InputError(f"classes is {classes.min()} to {classes.max()}; allowed is -1 to {_LAST}")
    keep = (index["part"] == PARTS.index(part)) & ~index["reserved"] & (classes >= 0)
    return np.flatnonzero(keep).astype(np.int64)


def _count(classes: Classes) -> Indices:
    return np.bincount(classes[classes >= 0], minlength=len(ARRHYTHMIA_CLASSES)).astype(np.int64)


def _by_class(rows: Indices, classes: Classes) -> list[Indices]:
    return [rows[classes[rows] == number] for number in range(len(ARRHYTHMIA_CLASSES))]


def _fill(places: int, weights: Indices, pools: list[Indices]) -> list[int]:
    """Places of each class by weight; what one lacks goes to the others, ties to the first."""
    available = np.array([len(pool) for pool in pools])
    counts = np.zeros_like(available)
    open_, left = available > 0, min(places, int(available.sum()))
    while left:
        whole, rest = np.divmod(left * weights * open_, np.sum(weights[open_]))  # exact: integers
        short = open_ & (available <= whole)
        if not short.any():
            largest = np.argsort(-rest, kind="stable")[: left - int(whole.sum())]
            counts += whole
            counts[largest] += 1
            break
        counts[short] = available[short]
        left, open_ = left - int(available[short].sum()), open_ & ~short
    return [int(count) for count in counts]


def _draw(groups: list[tuple[Indices, int]], seed: int, stream: int) -> Indices:
    generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
    chosen = [generator.choice(rows, count, replace=False) for rows, count in groups]
    return np.sort(np.concatenate(chosen)).astype(np.int64)
