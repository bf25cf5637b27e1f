"""Two tokens a person: whoever is told by one gives away the group of the other, and so on.

Source: the linkage risk paper in docs/linkage.md, "Attack process for multiple tokens".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.linkage.fingerprint_attack import Risk, occurs_once, weights
from common.linkage.keys import Q_BITS, Q_MASK, Keys

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def attack_two(first: Keys, second: Keys, masks: tuple[np.uint64, np.uint64]) -> Risk:
    """Attack with exact knowledge of two tokens of the same people, to the fixpoint.

    Args:
        first, second: keys of each person by each token, [n], in the same order; q is equal.
        masks: bits that are equal in a group of each.
    """
    n = len(first)
    if not n:
        return Risk(0.0, 0.0, 0.0, 0)
    q = (first & Q_MASK).astype(np.int64)
    groups = [numbered(keys & mask) for keys, mask in zip((first, second), masks, strict=True)]
    prints = [fingerprints(group, q) for group in groups]
    known = [occurs_once(print_) for print_ in prints]  # groups whose token is told
    person = _mixed(prints[0][groups[0]]) ^ _mixed(prints[1][groups[1]] + np.uint64(1)) ^ _mixed(
        q.astype(np.uint64) + np.uint64(2))
    told = occurs_once(person)
    apart = [occurs_once((group.astype(np.uint64) << np.uint64(Q_BITS)) | q.astype(np.uint64))
             for group in groups]
    while True:
        for group, token in zip(groups, known, strict=True):
            token[group[told]] = True
        now = told.copy()
        for group, token, unique in zip(groups, known, apart, strict=True):
            now |= token[group] & unique
        if now.sum() == told.sum():
            break
        told = now
    alone = np.bincount(q, minlength=1 << Q_BITS)[q] == 1
    seen = known[0][groups[0]] | known[1][groups[1]]
    shared = [np.bincount(group)[group] > 1 for group in groups]
    return Risk(float(np.mean(told & ~alone)), float(np.mean(seen)),
                float(np.mean(shared[0] | shared[1])), n)


def numbered(tokens: Keys) -> Ints:
    """Number of each person's group, [n]."""
    return np.unique(tokens, return_inverse=True)[1].astype(np.int64)


def fingerprints(group: Ints, q: Ints) -> Keys:
    """64 bits for each group's multiset of q, [groups]."""
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.concatenate([[True], np.diff(group[order]) != 0]))
    sizes = np.diff(np.append(begins, len(group))).astype(np.uint64)
    return np.add.reduceat(weights()[q[order]], begins) + _mixed(sizes)


def _mixed(values: Keys) -> Keys:
    """64 bits that look random (splitmix64, Steele et al. 2014)."""
    mixed = values + np.uint64(0x9E37_79B9_7F4A_7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return mixed ^ (mixed >> np.uint64(31))
