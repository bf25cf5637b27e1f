"""The attack on guessed demographics against its definition, with dictionaries."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.linkage.fingerprint_attack import attack
from common.linkage.guessed import agreed, attack_guessed, passed_on
from common.linkage.keys import demographics, group_mask, keys
from common.linkage.two_tokens import numbered
from tests.common.linkage.people import crowd

# (token, q, guessed q), so few of each that nearly everything is tied.
PEOPLE = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), max_size=16)


def columns(people):
    token, known, guessed = (np.array([p[i] for p in people], dtype=np.int64) for i in range(3))
    return numbered(token.astype(np.uint64)), known, guessed


def members(people, which):
    groups = defaultdict(list)
    for i, person in enumerate(people):
        groups[person[0]].append((person[which], i))
    return groups


def by_definition(people):
    register, release = members(people, 1), members(people, 2)

    def print_of(of):
        return tuple(sorted(q for q, _ in of))

    there, here = (Counter(print_of(of) for of in side.values()) for side in (register, release))
    named = {}
    for of in release.values():
        holders = [h for h, them in register.items() if print_of(them) == print_of(of)]
        if here[print_of(of)] == 1 and there[print_of(of)] == 1:
            for q, i in of:
                if print_of(of).count(q) == 1:
                    named[i] = next(j for value, j in register[holders[0]] if value == q)
    everybody = Counter(p[1] for p in people)
    return {i: j for i, j in named.items() if everybody[people[i][1]] > 1}


@settings(max_examples=400, deadline=None)
@given(PEOPLE)
def test_claims_are_those_of_the_definition(people):
    claims, named = attack_guessed(*columns(people)), by_definition(people)
    assert set(np.flatnonzero(claims.right)) == {i for i, j in named.items() if i == j}
    assert set(np.flatnonzero(claims.wrong)) == {i for i, j in named.items() if i != j}


@settings(max_examples=300, deadline=None)
@given(PEOPLE, st.randoms(use_true_random=False))
def test_who_is_known_gives_away_his_token(people, chance):
    told = np.array([chance.random() < 0.3 for _ in people], dtype=bool)
    register, release = members(people, 1), members(people, 2)
    everybody = Counter(p[1] for p in people)
    named = {}
    for token in {people[i][0] for i in np.flatnonzero(told)}:
        here, there = ([q for q, _ in side[token]] for side in (release, register))
        for q, i in release[token]:
            if here.count(q) == there.count(q) == 1 and not told[i] and everybody[
                    people[i][1]] > 1:
                named[i] = next(j for value, j in register[token] if value == q)
    claims = passed_on(*columns(people), told)
    assert set(np.flatnonzero(claims.right)) == {i for i, j in named.items() if i == j}
    assert set(np.flatnonzero(claims.wrong)) == {i for i, j in named.items() if i != j}


@pytest.mark.parametrize("token", ["A", "C", "F"])
def test_guesses_that_are_right_are_the_exact_attack(token):
    people = crowd(20_000, seed=1)
    group, q = numbered(keys(token, people) & group_mask(token)), demographics(people)
    claims = attack_guessed(group, q.astype(np.int64), q.astype(np.int64))
    assert not claims.wrong.any() and claims.right.any()
    assert claims.right.mean() == attack(keys(token, people), group_mask(token)).reidentified


def test_a_group_answers_as_one():
    scores = np.log([[0.9, 0.1], [0.4, 0.6], [0.4, 0.6], [0.2, 0.8]])
    assert agreed(np.array([0, 0, 1, 2]), scores).tolist() == [0, 0, 1, 1]
