"""Synthetic people: the same by seed, where they should be, and alike as often as the paper's."""

import dataclasses

import numpy as np
import pytest

from common.errors import InputError
from common.linkage.fingerprint_attack import attack, non_unique
from common.linkage.keys import EPOCH, TOKENS, group_mask, keys
from simulations import population
from simulations.lookup_tables import load
from simulations.population import TRISTATE, Population

N = 640_000
PAPER = {"A": 0.026, "B": 0.069, "C": 9.261}  # percent non-unique, Table 3


@pytest.fixture(scope="module")
def people():
    return Population(N).people()


@pytest.fixture
def small(monkeypatch):
    """A registry of which national populations are drawn in no time, in pieces."""
    monkeypatch.setattr(population, "REGISTRANTS", 50_000)
    monkeypatch.setattr(population, "CHUNK", 30_000)
    yield
    population._three_states.cache_clear()


def years(people):
    return (EPOCH + people.born.astype(int)).astype("datetime64[Y]").astype(int) + 1970


def test_a_seed_gives_the_same_people(people):
    again, other = Population(N).people(), Population(N, 1).people()
    for field in dataclasses.fields(people):
        assert np.array_equal(getattr(people, field.name), getattr(again, field.name))
    assert (people.last != other.last).mean() > 0.9


@pytest.mark.parametrize("where", [TRISTATE, "national"])
def test_keys_without_the_people_are_those_of_the_people(small, where):
    of = Population(100_000, 3, where)
    assert len(list(of.pieces())) == 4
    held = of.people()
    for token, made in of.keys(TOKENS).items():
        assert np.array_equal(made, keys(token, held))


def test_they_live_where_they_should_and_are_adults(people):
    tables = load()
    states = {tables.states[s] for s in np.unique(tables.zip_state[people.zip5])}
    assert states == set(TRISTATE.split(",")) and len(np.unique(people.zip3_of[people.zip5])) == 74
    assert years(people).min() >= 1932 and years(people).max() == 2004
    assert 0.45 < people.gender.mean() < 0.55


def test_the_bootstrap_repeats_a_registry_and_lives_anywhere(small):
    drawn = Population(200_000, 0, "national").people()
    registry = Population(50_000, 0).people()

    def names(people):
        return set(zip(people.first.tolist(), people.last.tolist(), people.gender.tolist(),
                       years(people).tolist(), strict=True))

    assert names(drawn) <= names(registry)
    assert 0.95 < len(names(drawn)) / (len(names(registry)) * (1 - np.exp(-4))) < 1.05
    tables = load()
    assert len(np.unique(tables.zip_state[drawn.zip5])) > 45
    born = [set(zip(p.first.tolist(), p.last.tolist(), p.born.tolist(), strict=True))
            for p in (drawn, registry)]
    assert len(born[0] & born[1]) < 0.01 * len(born[0])  # the day is drawn anew


def test_a_small_bootstrap_draws_from_as_large_a_registry():
    drawn = Population(200_000, 0, "national").people()  # of 31 million, so next to none repeats
    rows = np.stack([drawn.first, drawn.last, drawn.gender, years(drawn)])
    apart = np.unique(rows, axis=1).shape[1]
    assert 0.98 < apart / len(drawn) < 1


def test_few_zips_are_as_many_as_asked(small):
    drawn = Population(20_000, 0, "national", zip3s=7).people()
    assert len(np.unique(drawn.zip3_of[drawn.zip5])) == 7


@pytest.mark.parametrize("token", PAPER)
def test_tokens_repeat_about_as_often_as_in_three_registries(token, people):
    found = 100 * non_unique(keys(token, people), group_mask(token))
    few = {"A": 0.3, "B": 0.3, "C": 0.05}[token]  # a few hundred people share an A or B
    assert found == pytest.approx(PAPER[token], rel=few)


def test_risks_keep_their_order(people):
    risk = {t: attack(keys(t, people), group_mask(t)).reidentified for t in TOKENS}
    assert risk["C"] > 10 * risk["F"] > 10 * risk["B"] > 0 and risk["B"] > risk["A"]
    assert risk["F"] > risk["E"] > risk["A"] > risk["D"] == 0
    assert risk["B"] > risk["P"]  # the first name is worth more than the gender


def _alike(people, *names):
    first, second = slice(0, None, 2), slice(1, None, 2)
    return np.mean(np.logical_and.reduce([
        getattr(people, name)[first] == getattr(people, name)[second] for name in names]))


def test_relatives_share_what_relatives_share(monkeypatch):
    monkeypatch.setattr(population, "REGISTRANTS", N)  # so that both of every pair are drawn
    apart, related = Population(N).people(), Population(N, families=True).people()
    assert _alike(related, "last", "zip5") > 0.4 > _alike(apart, "last", "zip5") + 0.3
    assert _alike(related, "last", "zip5", "born") == pytest.approx(0.008, rel=0.1)
    assert _alike(related, "first", "last", "zip5") > 10 * _alike(apart, "first", "last", "zip5")


def test_a_sample_holds_both_of_a_family_as_rarely_as_it_is_small(monkeypatch):
    monkeypatch.setattr(population, "REGISTRANTS", 4 * N)
    related = Population(N, families=True).people()
    assert _alike(related, "last", "zip5", "born") == pytest.approx(0.002, rel=0.1)


@pytest.mark.parametrize(("asked", "line"), [
    ({"n": 0}, "population is 0; allowed: 1 to 250000000"),
    ({"n": 10, "where": "XX"}, "state is 'XX'; allowed: national, US, A"),
    ({"n": 10, "where": "FL", "zip3s": 99}, "zip3s is 99; allowed: 0 to 25"),
    ({"n": 10, "where": "national", "families": True}, "whose draws are independent")])
def test_what_there_is_not_is_refused(asked, line):
    with pytest.raises(InputError, match=line):
        Population(**asked)
