"""Synthetic people: the same by seed, where they should be, and alike as often as the paper's."""

import dataclasses

import numpy as np
import pytest

from common.errors import InputError
from common.linkage.fingerprint_attack import attack, non_unique
from common.linkage.keys import EPOCH, group_mask, keys
from simulations.population import TRISTATE, draw, load

N = 640_000
PAPER = {"A": 0.026, "B": 0.069, "C": 9.261}  # percent non-unique, Table 3


@pytest.fixture(scope="module")
def people():
    return draw(N, 0, TRISTATE)


def test_a_seed_gives_the_same_people(people):
    again, other = draw(N, 0, TRISTATE), draw(N, 1, TRISTATE)
    for field in dataclasses.fields(people):
        assert np.array_equal(getattr(people, field.name), getattr(again, field.name))
    assert (people.last != other.last).mean() > 0.9


def test_they_live_where_they_should_and_are_adults(people):
    tables = load()
    states = {tables.states[s] for s in np.unique(tables.zip_state[people.zip5])}
    assert states == set(TRISTATE) and len(np.unique(people.zip3_of[people.zip5])) == 74
    years = (EPOCH + people.born.astype(int)).astype("datetime64[Y]").astype(int) + 1970
    assert years.min() >= 1932 and years.max() == 2004 and 0.45 < people.gender.mean() < 0.55


@pytest.mark.parametrize("token", PAPER)
def test_tokens_repeat_about_as_often_as_in_three_registries(token, people):
    found = 100 * non_unique(keys(token, people), group_mask(token))
    few = {"A": 0.3, "B": 0.3, "C": 0.05}[token]  # a few hundred people share an A or B
    assert found == pytest.approx(PAPER[token], rel=few)


def test_risks_keep_their_order(people):
    risk = {t: attack(keys(t, people), group_mask(t)).reidentified for t in "ABCDEF"}
    assert risk["C"] > 10 * risk["F"] > 10 * risk["B"] > 0 and risk["B"] > risk["A"]
    assert risk["F"] > risk["E"] > risk["A"] > risk["D"] == 0


def test_relatives_share_what_relatives_share():
    apart, related = draw(N, 0, TRISTATE), draw(N, 0, TRISTATE, families=True)
    first, second = slice(0, None, 2), slice(1, None, 2)

    def alike(people, *names):
        return np.mean(np.logical_and.reduce([
            getattr(people, name)[first] == getattr(people, name)[second] for name in names]))

    assert alike(related, "last", "zip5") > 0.4 > alike(apart, "last", "zip5") + 0.3
    assert alike(related, "last", "zip5", "born") == pytest.approx(0.008, rel=0.1)
    assert alike(related, "first", "last", "zip5") > 10 * alike(apart, "first", "last", "zip5")


@pytest.mark.parametrize(("n", "states", "line"), [
    (0, (), "population is 0; allowed: 1 to 250000000"), (10, ("XX",), "state is 'XX'")])
def test_what_there_is_not_is_refused(n, states, line):
    with pytest.raises(InputError, match=line):
        draw(n, 0, states)
