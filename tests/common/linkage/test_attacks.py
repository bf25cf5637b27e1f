"""The attacks against their definitions, spelled out with dictionaries, on small populations."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.errors import InputError
from common.linkage import fingerprint_attack
from common.linkage.containment import LARGEST, Groups, attack_contained, matched
from common.linkage.fingerprint_attack import attack, non_unique, one_value_each
from common.linkage.keys import Q_BITS, keys
from common.linkage.two_tokens import attack_two
from tests.common.linkage.people import crowd

MASK = np.uint64(0xFFFF_FFFF_FFFF_FFFF ^ ((1 << Q_BITS) - 1))
# (token, q), so few of each that nearly everything is tied.
PEOPLE = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), max_size=24)


def packed(people):
    return np.array([(t << Q_BITS) | q for t, q in people], dtype=np.uint64).reshape(-1)


def grouped(people):
    groups = defaultdict(list)
    for token, q in people:
        groups[token].append(q)
    return groups


def by_definition(people):
    groups, everybody = grouped(people), Counter(q for _, q in people)
    prints = Counter(tuple(sorted(of)) for of in groups.values())
    told = [of for of in groups.values() if prints[tuple(sorted(of))] == 1]
    identified = sum(of.count(q) == 1 and everybody[q] > 1 for of in told for q in of)
    shared = sum(len(of) for of in groups.values() if len(of) > 1)
    return identified, sum(map(len, told)), shared


@settings(max_examples=300, deadline=None)
@given(PEOPLE)
def test_one_token(people):
    risk = attack(packed(people), MASK)
    n = max(1, len(people))
    assert (risk.reidentified * n, risk.unblinded * n, risk.non_unique * n) == pytest.approx(
        by_definition(people))
    assert non_unique(packed(people), MASK) * n == pytest.approx(by_definition(people)[2])


@settings(max_examples=100, deadline=None)
@given(PEOPLE, st.integers(1, 5))
def test_pieces_give_the_same(people, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint_attack, "_CHUNK", size)
        pieces = attack(packed(people), MASK)
    assert pieces == attack(packed(people), MASK)


@settings(max_examples=300, deadline=None)
@given(PEOPLE)
def test_one_value_each(people):
    groups, everybody = grouped(people), Counter(q for _, q in people)
    shown = {token: min(of) for token, of in groups.items()}
    told = Counter(shown.values())
    alone = sum(len(groups[t]) == 1 and told[q] == 1 and everybody[q] > 1
                for t, q in shown.items())
    assert one_value_each(packed(people), MASK) * max(1, len(people)) == pytest.approx(alone)


def test_sums_of_random_bits_tell_multisets_apart():
    """A hundred thousand multisets of two and of three, and not one pair with equal sums."""
    pairs = np.stack(np.triu_indices(300), axis=1)
    generator = np.random.default_rng(0)
    threes = np.unique(np.sort(generator.integers(0, 300, (60_000, 3)), axis=1), axis=0)
    rows = [packed([(t, q) for t, of in enumerate(many) for q in of]) for many in (pairs, threes)]
    rows[1] += np.uint64(len(pairs) << Q_BITS)
    together = np.concatenate(rows)
    together.sort()
    prints, sizes, _ = fingerprint_attack._fingerprints(together, MASK,
                                                        np.zeros(1 << Q_BITS, bool))
    assert len(np.unique(prints)) == len(prints) == len(pairs) + len(threes)
    assert sorted(np.unique(sizes)) == [2, 3]


def two_by_definition(people):
    tokens = [grouped([(p[i], p[2]) for p in people]) for i in (0, 1)]
    fp = [{t: tuple(sorted(of)) for t, of in groups.items()} for groups in tokens]
    once = [Counter(f.values()) for f in fp]
    known = [{t for t, f in fp[i].items() if once[i][f] == 1} for i in (0, 1)]
    own = [(fp[0][x], fp[1][y], q) for x, y, q in people]
    told = {i for i, one in enumerate(own) if own.count(one) == 1}
    while True:
        for i in told:
            known[0].add(people[i][0])
            known[1].add(people[i][1])
        more = {i for i, p in enumerate(people) for k in (0, 1)
                if p[k] in known[k] and tokens[k][p[k]].count(p[2]) == 1}
        if more <= told:
            break
        told |= more
    everybody = Counter(q for _, _, q in people)
    return (sum(everybody[people[i][2]] > 1 for i in told),
            sum(x in known[0] or y in known[1] for x, y, _ in people))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), max_size=20))
def test_two_tokens(people):
    risk = attack_two(packed([(x, q) for x, _, q in people]),
                      packed([(y, q) for _, y, q in people]),
                      (MASK, MASK))
    n = max(1, len(people))
    assert (risk.reidentified * n, risk.unblinded * n) == pytest.approx(two_by_definition(people))


def contained_by_definition(small, large):
    inner, outer = grouped(small), grouped(large)
    cand = {t: {g for g, of in outer.items() if not Counter(qs) - Counter(of)}
            for t, qs in inner.items()}
    found = {}
    while True:
        sure = {t: next(iter(c)) for t, c in cand.items() if len(c) == 1}
        if not sure:
            break
        found |= sure
        taken = set(sure.values())
        cand = {t: c - taken for t, c in cand.items() if t not in sure}
    everybody = Counter(q for _, q in small)
    return found, sum(outer[g].count(q) == 1 and everybody[q] > 1
                      for t, g in found.items() for q in inner[t])


@settings(max_examples=300, deadline=None)
@given(PEOPLE, st.randoms(use_true_random=False))
def test_a_reference_that_holds_more_people(people, chance):
    small = [p for p in people if chance.random() < 0.6]
    risk = attack_contained(packed(small), packed(people), MASK)
    found, identified = contained_by_definition(small, people)
    n = max(1, len(small))
    assert risk.reidentified * n == pytest.approx(identified)
    assert risk.unblinded * n == pytest.approx(sum(len(grouped(small)[t]) for t in found))
    assert all(t == g for t, g in found.items())  # sound: whatever is told is right
    inner, outer = Groups.of(packed(small), MASK), Groups.of(packed(people), MASK)
    tokens = [sorted(grouped(side)) for side in (small, people)]
    assert {tokens[0][i]: tokens[1][g] for i, g in matched(inner, outer)} == found


@settings(max_examples=100, deadline=None)
@given(PEOPLE, st.randoms(use_true_random=False))
def test_a_reference_that_lacks_people(people, chance):
    known = [p for p in people if chance.random() < 0.6]
    risk = attack_contained(packed(known), packed(people), MASK, released="large")
    found, _ = contained_by_definition(known, people)
    everybody, outer = Counter(q for _, q in people), grouped(people)
    identified = sum(outer[t].count(q) == 1 and everybody[q] > 1
                     for t in found for q in grouped(known)[t])
    assert risk.reidentified * max(1, len(people)) == pytest.approx(identified)
    assert risk.n == len(people)


def test_groups_beyond_what_can_be_searched_are_refused():
    large = np.zeros(LARGEST + 1, dtype=np.uint64)
    with pytest.raises(InputError, match="too coarse"):
        attack_contained(large[:2].copy(), large, MASK)


@pytest.mark.parametrize("token", ["A", "B", "C", "D", "E", "F"])
def test_a_million_people_as_duckdb_counts_them(token):
    duckdb = pytest.importorskip("duckdb")
    pyarrow = pytest.importorskip("pyarrow")
    people = crowd(200_000, seed=3)
    own = keys(token, people)
    from common.linkage.keys import Q_MASK, group_mask

    table = pyarrow.table({"token": own & group_mask(token), "q": own & Q_MASK})  # noqa: F841
    identified, told, shared = duckdb.sql("""
        with g as (select token, list_sort(list(q)) as print, count(*) as size from "table"
                   group by token),
             once as (select print from g group by print having count(*) = 1),
             known as (select token, size from g where print in (select print from once)),
             alone as (select q from "table" group by q having count(*) = 1),
             inside as (select token, q from "table" group by token, q having count(*) = 1)
        select (select count(*) from inside join known using (token)
                where q not in (select q from alone)),
               (select sum(size) from known),
               (select coalesce(sum(size), 0) from g where size > 1)""").fetchall()[0]
    risk = attack(own, group_mask(token))
    n = len(people)
    assert (risk.reidentified * n, risk.unblinded * n, risk.non_unique * n) == pytest.approx(
        (identified, told, shared))
    assert identified > 0 or token == "D"
