"""The attack with imperfect knowledge: one side holds people whom the other has not.

Where the reference is a superset of the release, a token's group lies inside the group of the
reference that it came from. So a token is told where only one group could hold it; that group is
then taken from all other tokens' candidates, until nothing changes. Whatever is told is right.
Source: the linkage risk paper in docs/linkage.md, "Attacks with imperfect knowledge".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.linkage.fingerprint_attack import Risk, weights
from common.linkage.keys import Q_BITS, Q_MASK, Keys

Ints = NDArray[np.int64]
_CHUNK = 1 << 22
LARGEST = 4096  # members of a group of the larger side, as pairs of them are searched


@dataclass(frozen=True)
class Groups:
    """Sorted keys, cut into groups: group g is rows starts[g] to starts[g + 1]."""

    q: Ints
    starts: Ints

    @classmethod
    def of(cls, keys: Keys, mask: np.uint64) -> Groups:
        """Sort the keys in place and cut them."""
        keys.sort()
        masked = keys & mask
        begins = np.flatnonzero(np.concatenate([[True], masked[1:] != masked[:-1]])[: len(keys)])
        return cls((keys & Q_MASK).astype(np.int64), np.append(begins, len(keys)))

    @property
    def sizes(self) -> Ints:
        """Members of each group."""
        return np.diff(self.starts)

    def members(self, group: int) -> Ints:
        """q of a group, in ascending order."""
        return self.q[self.starts[group] : self.starts[group + 1]]

    def rows(self, groups: Ints) -> tuple[Ints, Ints]:
        """Rows of some groups, and which of these groups each is of."""
        sizes = self.sizes[groups]
        which = np.repeat(np.arange(len(groups)), sizes)
        first = np.repeat(self.starts[groups] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        return first + np.arange(len(which)), which


def attack_contained(small: Keys, large: Keys, mask: np.uint64,
                     released: str = "small") -> Risk:
    """Attack where one side is contained in the other; both arrays are sorted in place.

    Args:
        small: keys of the people that both sides hold.
        large: keys of all.
        mask: bits that are equal in a group.
        released: which of them carries tokens; fractions are of its people.

    Raises:
        InputError: a group of `large` is too large to be searched.
    """
    inner, outer = Groups.of(small, mask), Groups.of(large, mask)
    people = small if released == "small" else large
    alone = np.bincount((people & Q_MASK).astype(np.int64), minlength=1 << Q_BITS) == 1
    pairs = matched(inner, outer)
    mine, of_mine = inner.rows(pairs[:, 0])
    theirs, of_theirs = outer.rows(pairs[:, 1])
    released_rows = len(mine) if released == "small" else len(theirs)
    codes, counts = np.unique((of_theirs << Q_BITS) | outer.q[theirs], return_counts=True)
    q = inner.q[mine]
    told = np.isin((of_mine << Q_BITS) | q, codes[counts == 1]) & ~alone[q]
    shared = (inner if released == "small" else outer).sizes
    n = max(1, len(people))
    return Risk(int(told.sum()) / n, released_rows / n, int(shared[shared > 1].sum()) / n,
                len(people))


def matched(inner: Groups, outer: Groups) -> Ints:
    """(group, the one group of `outer` that can hold it), to the fixpoint, [pairs, 2]."""
    if len(outer.sizes) and outer.sizes.max() > LARGEST:
        raise InputError(f"the largest group has {outer.sizes.max()} people; allowed are "
                         f"{LARGEST}: the token is too coarse for this attack")
    # Two groups of equal members have equal candidates, at least two, so neither is ever told.
    group, holder = _candidates(inner, outer, _of_unlike_members(inner))
    taken = np.zeros(len(outer.sizes), dtype=bool)
    found = [np.zeros((0, 2), np.int64)]
    while len(group):
        open_ = ~taken[holder]
        group, holder = group[open_], holder[open_]
        _, first, counts = np.unique(group, return_index=True, return_counts=True)
        told = first[counts == 1]
        if not len(told):
            break
        # Two tokens cannot come from one group: then the data break the premise, and none is told.
        _, once, times = np.unique(holder[told], return_index=True, return_counts=True)
        sure = told[once[times == 1]]
        found.append(np.column_stack([group[sure], holder[sure]]))
        taken[holder[told]] = True
        group, holder = (part[~np.isin(group, group[told])] for part in (group, holder))
    return np.concatenate(found)


def _of_unlike_members(groups: Groups) -> Ints:
    """Groups whose multiset of q no other group has."""
    if not len(groups.sizes):
        return np.zeros(0, np.int64)
    sums = np.add.reduceat(weights()[groups.q], groups.starts[:-1])
    sums += groups.sizes.astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    _, inverse, counts = np.unique(sums, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] == 1)


def _candidates(inner: Groups, outer: Groups, chosen: Ints) -> tuple[Ints, Ints]:
    """(group of `chosen`, a group of `outer` that holds all its members), every such pair."""
    sizes = inner.sizes[chosen]
    common = np.bincount(outer.q, minlength=1 << Q_BITS)
    asked = _rarest_pair(inner, chosen[sizes > 1], common)
    single = inner.q[inner.starts[chosen[sizes == 1]]]
    found = [_holding(outer, single, chosen[sizes == 1], 0),
             _holding(outer, asked, chosen[sizes > 1], 1)]
    group, holder = (np.concatenate(part) for part in zip(*found, strict=True))
    big = np.flatnonzero(inner.sizes[group] > 2)  # of smaller ones all members were asked for
    fits = np.ones(len(group), dtype=bool)
    for i in big:
        fits[i] = _inside(inner.members(group[i]), outer.members(holder[i]))
    return group[fits], holder[fits]


def _rarest_pair(groups: Groups, chosen: Ints, common: Ints) -> Ints:
    """Of each group its two rarest members as one code, the smaller q in the higher bits."""
    codes = np.empty(len(chosen), np.int64)
    for i, group in enumerate(chosen):
        q = groups.members(group)
        if len(q) > 2:
            q = np.sort(q[np.argsort(common[q], kind="stable")[:2]])
        codes[i] = (q[0] << Q_BITS) | q[1]
    return codes


def _holding(outer: Groups, asked: Ints, group: Ints, reach: int) -> tuple[Ints, Ints]:
    """(group, holder) for every group of `outer` that has the member, or pair, asked for.

    Args:
        outer: searched.
        asked: codes, one of each group in `group`; q alone, or pairs.
        group: who asks.
        reach: 0: single members; 1: pairs.
    """
    if not len(asked):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    order = np.argsort(asked, kind="stable")
    ranked = asked[order]
    of_row = np.repeat(np.arange(len(outer.sizes)), outer.sizes)
    found_code, found_holder = [], []
    furthest = int(outer.sizes.max(initial=1)) - 1 if reach else 0
    for distance in range(reach, furthest + 1):
        for start in range(0, len(outer.q) - distance, _CHUNK):
            stop = min(start + _CHUNK, len(outer.q) - distance)
            code = outer.q[start:stop]
            if reach:
                same = of_row[start:stop] == of_row[start + distance : stop + distance]
                code = np.where(same, (code << Q_BITS) | outer.q[start + distance:stop + distance],
                                -1)
            at = np.searchsorted(ranked, code)
            hit = np.flatnonzero(ranked[np.minimum(at, len(ranked) - 1)] == code)
            found_code.append(code[hit])
            found_holder.append(of_row[start:stop][hit])
    if not found_code:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    both = np.unique(np.stack([np.concatenate(found_code), np.concatenate(found_holder)]), axis=1)
    low, high = (np.searchsorted(ranked, both[0], side=side) for side in ("left", "right"))
    times = high - low  # groups that ask for the same code
    asking = np.repeat(low, times) + np.arange(times.sum()) - np.repeat(
        np.cumsum(times) - times, times)
    return group[order[asking]], np.repeat(both[1], times)


def _inside(small: Ints, large: Ints) -> bool:
    """Whether the sorted multiset `large` holds `small`."""
    need, counts = np.unique(small, return_counts=True)
    have = np.searchsorted(large, need, side="right") - np.searchsorted(large, need, side="left")
    return bool((have >= counts).all())
