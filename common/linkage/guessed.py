"""The attack where part of what stands beside a token is guessed, as sex and age from a waveform.

The reference holds q as it is and the release as it was guessed. Where a guess is wrong, a group's
fingerprint meets none of the reference, or another group's: such claims are counted apart.
Source: the linkage risk paper in docs/linkage.md, "PPRL attack process", and the latent
demographics of its section "Year of birth fingerprint".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.linkage.fingerprint_attack import occurs_once
from common.linkage.keys import Q_BITS
from common.linkage.two_tokens import Bools, Ints, fingerprints


@dataclass(frozen=True)
class Claims:
    """Of each released person, [n]: whether somebody was named for him, rightly or not."""

    right: Bools
    wrong: Bools


def attack_guessed(group: Ints, known: Ints, guessed: Ints) -> Claims:
    """Attack one token; nobody is counted whom `known` gives away without it.

    Args:
        group: number of each person's token, [n], from 0 without gaps.
        known: q in the reference, [n], below 2^18.
        guessed: q as the release tells it, [n].
    """
    if not len(group):
        return Claims(np.zeros(0, dtype=bool), np.zeros(0, dtype=bool))
    holder = _same(fingerprints(group, guessed), fingerprints(group, known))
    # The groups' members are equal, so one who is alone with his q here is alone there, too.
    named = (holder[group] >= 0) & _apart(group, guessed) & ~_alone(known)
    right = named & (holder[group] == group) & (known == guessed)
    return Claims(right, named & ~right)


def passed_on(group: Ints, known: Ints, guessed: Ints, told: Bools) -> Claims:
    """Who else is named once the people in `told` are: their tokens are known with them.

    Args:
        group, known, guessed: as of `attack_guessed`.
        told: people who are rightly identified by other means, [n].
    """
    unblinded = np.zeros(int(group.max(initial=-1)) + 1, dtype=bool)
    unblinded[group[told]] = True
    sought = (group << Q_BITS) | guessed
    everybody, counts = np.unique((group << Q_BITS) | known, return_counts=True)
    at = np.minimum(np.searchsorted(everybody, sought), max(0, len(everybody) - 1))
    one = (everybody[at] == sought) & (counts[at] == 1)  # in the reference's group
    named = unblinded[group] & one & _apart(group, guessed) & ~told & ~_alone(known)
    right = named & (known == guessed)
    return Claims(right, named & ~right)


def agreed(group: Ints, scores: NDArray[np.float64]) -> Ints:
    """What the members of each group are together, [n], where it is the same for all of them.

    Args:
        group: of each person, [n].
        scores: log-probabilities of each, [n, classes].
    """
    total = np.stack([np.bincount(group, column) for column in scores.T], axis=1)
    return np.asarray(total.argmax(1)[group])


def _same(release: NDArray[np.uint64], reference: NDArray[np.uint64]) -> Ints:
    """For each group of the release the one of the reference with its fingerprint, or -1.

    Both must have no equal on their own side.
    """
    order = np.argsort(reference)
    at = np.minimum(np.searchsorted(reference[order], release), len(order) - 1)
    found = order[at]
    match = (reference[found] == release) & occurs_once(reference)[found] & occurs_once(release)
    return np.where(match, found, -1)


def _apart(group: Ints, q: Ints) -> Bools:
    """Who has a q that nobody else of the group has, [n]."""
    return occurs_once(((group << Q_BITS) | q).astype(np.uint64))


def _alone(q: Ints) -> Bools:
    """Whom q alone gives away, [n]."""
    return np.asarray(np.bincount(q, minlength=1 << Q_BITS)[q] == 1)
