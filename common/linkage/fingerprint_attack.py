"""Who can be told from a linkage token that several people share, and from what is known besides?

People of one token form a group; the multiset of their demographics q is its fingerprint. An
attacker with names, birthdays and addresses computes the same groups. A fingerprint that no other
group has gives the token away, and in such a group a q that only one person has gives the person
away. Nobody is counted whom q alone would give away.
Source: the linkage risk paper in docs/linkage.md, "PPRL attack process"; the tokens are its A to F.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from common.linkage.keys import Q_BITS, Q_MASK, Keys

_CHUNK = 1 << 22  # rows at once, so that intermediate arrays stay small
_SEED = 0x5EED  # of the fingerprints' weights: any will do


@dataclass(frozen=True)
class Risk:
    """Fractions of n people.

    Args:
        reidentified: told by token and demographics, and not by these alone.
        unblinded: whose token is known to the attacker.
        non_unique: whose token somebody else has, too.
        n: people.
    """

    reidentified: float
    unblinded: float
    non_unique: float
    n: int


def attack(keys: Keys, mask: np.uint64) -> Risk:
    """Attack one token with exact knowledge: the reference holds the people of the release.

    Args:
        keys: of `common.linkage.keys`, [n]; sorted in place, as copies of them do not fit.
        mask: bits that are equal in a group.
    """
    n = len(keys)
    if not n:
        return Risk(0.0, 0.0, 0.0, 0)
    keys.sort()
    everybody, singles = _counts(keys, mask)
    alone = everybody == 1  # q that gives a person away without any token
    # A group of one is told where no other group of one has its q.
    told = singles == 1
    unblinded, reidentified, lonely = int(told.sum()), int((told & ~alone).sum()), int(
        singles.sum())
    prints, sizes, unique = _fingerprints(keys, mask, alone)
    own = occurs_once(prints)
    unblinded += int(sizes[own].sum())
    reidentified += int(unique[own].sum())
    return Risk(reidentified / n, unblinded / n, (n - lonely) / n, n)


def one_value_each(keys: Keys, mask: np.uint64) -> float:
    """Share re-identified where every token's identity has one q, that of one of its records.

    The smallest q stands for any rule that the attacker knows; `keys` are sorted in place. Of
    several people behind one identity nobody is told apart, so it takes one with a q that no other
    identity has, and that gives away nobody by itself.
    """
    keys.sort()
    everybody, singles = _counts(keys, mask)
    identities = np.zeros(1 << Q_BITS, np.int64)
    for start in range(0, len(keys), _CHUNK):
        stop = min(start + _CHUNK, len(keys))
        first = keys[start:stop][_apart(keys, mask, start, stop)[0]]
        identities += np.bincount((first & Q_MASK).astype(np.int64), minlength=1 << Q_BITS)
    told = (identities == 1) & (singles == 1) & (everybody > 1)
    return int(told.sum()) / max(1, len(keys))


def non_unique(keys: Keys, mask: np.uint64) -> float:
    """Share of people whose token somebody else has, too; `keys` are sorted in place."""
    keys.sort()
    n = len(keys)
    return (n - int(_counts(keys, mask)[1].sum())) / max(1, n)


def _counts(keys: Keys, mask: np.uint64) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many people, and how many groups of one, have each q; [2^18] both."""
    everybody, singles = np.zeros(1 << Q_BITS, np.int64), np.zeros(1 << Q_BITS, np.int64)
    for start in range(0, len(keys), _CHUNK):
        stop = min(start + _CHUNK, len(keys))
        q = (keys[start:stop] & Q_MASK).astype(np.int64)
        before, after = _apart(keys, mask, start, stop)
        everybody += np.bincount(q, minlength=1 << Q_BITS)
        singles += np.bincount(q[before & after], minlength=1 << Q_BITS)
    return everybody, singles


def _apart(keys: Keys, mask: np.uint64, start: int,
           stop: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether rows differ, in the mask's bits, from the one before and the one after them."""
    low, high = max(0, start - 1), min(len(keys), stop + 1)
    differs = ((keys[low : high - 1] ^ keys[low + 1 : high]) & mask) != 0
    ends = np.ones(1, dtype=bool)
    padded = np.concatenate([ends[start:], differs, ends[len(keys) - stop :]])
    return padded[:-1], padded[1:]


@cache
def weights() -> Keys:
    """64 random bits for each q, [2^18]."""
    return np.random.default_rng(_SEED).integers(0, 1 << 64, 1 << Q_BITS, dtype=np.uint64)


def _fingerprints(keys: Keys, mask: np.uint64, alone: NDArray[np.bool_]) -> tuple[
        Keys, NDArray[np.int64], NDArray[np.int64]]:
    """Of every group of two or more: its fingerprint, size, and members that count once it is told.

    A fingerprint is the sum of 64 random bits per q, and of others for the size: two that differ
    have the same sum once in 2^64 pairs, less than once in a hundred for 250 million groups.
    """
    weight = weights()
    everything = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
    found: list[tuple[Keys, NDArray[np.int64], NDArray[np.int64]]] = []
    start = 0
    while start < len(keys):
        stop = _end_of_group(keys, mask, min(start + _CHUNK, len(keys)))
        before, after = _apart(keys, mask, start, stop)
        rows = np.flatnonzero(~(before & after))  # of groups of two or more
        if len(rows):
            q = (keys[start:stop][rows] & Q_MASK).astype(np.int64)
            begins = np.flatnonzero(before[rows])
            other, another = _apart(keys, everything, start, stop)
            counts = (other & another)[rows] & ~alone[q]
            sizes = np.diff(np.append(begins, len(rows)))
            found.append((np.add.reduceat(weight[q], begins) + _mixed(sizes), sizes,
                          np.add.reduceat(counts.astype(np.int64), begins)))
        start = stop
    if not found:
        none = np.zeros(0, np.int64)
        return np.zeros(0, np.uint64), none, none
    prints, sizes, unique = (np.concatenate(part) for part in zip(*found, strict=True))
    return prints, sizes, unique


def _end_of_group(keys: Keys, mask: np.uint64, stop: int) -> int:
    """The first row from `stop` on that begins a group."""
    while stop < len(keys):
        piece = keys[stop - 1 : stop + _CHUNK]
        begins = np.flatnonzero(((piece[1:] ^ piece[:-1]) & mask) != 0)
        if len(begins):
            return stop + int(begins[0])
        stop += len(piece) - 1
    return len(keys)


def _mixed(sizes: NDArray[np.int64]) -> Keys:
    """64 bits for a size."""
    mixed = sizes.astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    mixed ^= mixed >> np.uint64(29)
    return mixed * np.uint64(0xBF58_476D_1CE4_E5B9)


def occurs_once(values: Keys) -> NDArray[np.bool_]:
    """Which values no other one equals."""
    order = np.argsort(values)
    ranked = values[order]
    differs = np.concatenate([[True], ranked[1:] != ranked[:-1], [True]])[: len(values) + 1]
    once = np.zeros(len(values), dtype=bool)
    once[order] = differs[:-1] & differs[1:]
    return once
