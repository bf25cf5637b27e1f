"""Synthetic people, drawn from public-domain tables: up to 250 million, by seed.

Race of a ZIP code -> surname; year of birth and sex from births and survival -> first name, given
the race; a day of that year. Surnames that the Census does not list (12.1 % of people) are drawn
from six million made-up ones. These are no voter registry: neighbours, fashions of a region and
immigration by place are missing. How many are twins was set so that token B repeats among 2.56
million people of three states as often as the paper found.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.linkage.keys import EPOCH, People

TABLE = Path(__file__).parent / "people" / "population.npz"
FIRST_YEAR = 1932
TRISTATE = ("FL", "NC", "OH")
REGISTRANTS = 30_927_286  # of the paper's three registries
LARGEST = 250_000_000
_SURNAME_BITS, _FIRST_BITS, _ZIP_BITS, _BIRTH_BITS = 22, 15, 22, 20
_LISTED = 0.8787  # of people have a surname that the Census lists
_RARE_SURNAMES, _RARE_FIRST = 6_000_000, 60_000
_RACES = 4
_CHUNK = 1 << 21
_LEAST_ZIP3 = 20_000  # people of a 3-digit ZIP that is released
_TWIN, _JUNIOR, _HOUSEHOLD = 0.008, 0.02, 0.45  # of pairs: twins, namesakes, a shared home

Table = NDArray[np.uint32]


@dataclass(frozen=True)
class Tables:
    """Lookup tables: a random index gives a draw; made once from the file."""

    surname: list[Table]  # of each race
    first: Table  # [years * sexes * races, 2^15]
    birth: Table  # year * 2 + sex
    zip_race: NDArray[np.uint8]  # [ZIPs, 256]: race by a random byte
    zip_people: NDArray[np.uint32]
    zip_state: NDArray[np.uint8]
    states: list[str]
    year_start: NDArray[np.int64]
    year_days: NDArray[np.int64]
    initials: NDArray[np.uint8]
    soundex_first: NDArray[np.uint16]
    soundex_last: NDArray[np.uint16]
    zip3_of: NDArray[np.uint16]


def draw(n: int, seed: int, states: tuple[str, ...] = (), *, families: bool = False) -> People:
    """People of some states, or of all.

    Args:
        n: 1 to 250 million; 15 bytes each.
        seed: the same gives the same people.
        states: such as ("FL", "NC", "OH").
        families: whether some are twins, namesakes of a parent, or share surname and home.

    Raises:
        InputError: n or a state is out of range.
    """
    if not 1 <= n <= LARGEST:
        raise InputError(f"population is {n}; allowed: 1 to {LARGEST}")
    tables = load()
    where = _places(states)
    people = _empty(n, tables)
    for number, start in enumerate(range(0, n, _CHUNK)):
        _fill(people, slice(start, min(start + _CHUNK, n)), np.random.default_rng([seed, number]),
              tables, where, families)
    return people


def national(n: int, seed: int) -> People:
    """The paper's bootstrap: names, sex and year with replacement from a registry of three states.

    The day is drawn within the year, the ZIP code among the 3-digit areas of 20,000 people or more.
    """
    tables, registry = load(), draw(REGISTRANTS, seed, TRISTATE)
    where = _places(())
    people = _empty(n, tables)
    for number, start in enumerate(range(0, n, _CHUNK)):
        rows = slice(start, min(start + _CHUNK, n))
        generator = np.random.default_rng([seed, number, 1])
        who = generator.integers(0, REGISTRANTS, rows.stop - rows.start)
        people.first[rows], people.last[rows] = registry.first[who], registry.last[who]
        people.gender[rows] = registry.gender[who]
        year = (EPOCH + registry.born[who]).astype("datetime64[Y]").astype(np.int64) + 1970
        people.born[rows] = _day(generator, year - FIRST_YEAR, tables)
        people.zip5[rows] = where[generator.integers(0, 1 << _ZIP_BITS, len(who))]
    return people


def _empty(n: int, tables: Tables) -> People:
    return People(np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, np.uint16),
                  np.empty(n, np.uint8), np.empty(n, np.uint16), tables.initials,
                  tables.soundex_first, tables.soundex_last, tables.zip3_of)


def _fill(people: People, rows: slice, generator: np.random.Generator, tables: Tables,
          where: Table, families: bool) -> None:
    """Draw a piece of the people in place."""
    n = rows.stop - rows.start
    zip5 = where[generator.integers(0, 1 << _ZIP_BITS, n, dtype=np.uint32)]
    race = tables.zip_race[zip5, generator.integers(0, 256, n, dtype=np.uint8)]
    birth = tables.birth[generator.integers(0, 1 << _BIRTH_BITS, n, dtype=np.uint32)]
    at = generator.integers(0, 1 << _SURNAME_BITS, n, dtype=np.uint32)
    last = np.empty(n, np.uint32)
    for which, table in enumerate(tables.surname):
        mine = race == which
        last[mine] = table[at[mine]]
    rare = last == 0
    last[rare] = len(tables.soundex_last) - 1 - generator.integers(
        0, _RARE_SURNAMES, int(rare.sum()), dtype=np.uint32)
    first = tables.first[birth * _RACES + race,
                         generator.integers(0, 1 << _FIRST_BITS, n, dtype=np.uint16)]
    rare = first == 0
    first[rare] = len(tables.initials) - 1 - generator.integers(0, _RARE_FIRST, int(rare.sum()),
                                                                dtype=np.uint32)
    born = _day(generator, birth >> 1, tables)
    gender = (birth & 1).astype(np.uint8)
    if families:
        _relate(generator, first, last, born, gender, zip5)
    people.first[rows], people.last[rows], people.born[rows] = first, last, born
    people.gender[rows], people.zip5[rows] = gender, zip5


def _relate(generator: np.random.Generator, first: Table, last: Table, born: NDArray[np.uint16],
            gender: NDArray[np.uint8], zip5: NDArray[np.integer]) -> None:
    """Make every second person of some pairs a twin, a namesake or a housemate of the first."""
    pairs = np.arange(0, len(first) - 1, 2)
    chance = generator.random(len(pairs))
    twins = pairs[chance < _TWIN]
    juniors = pairs[(chance >= _TWIN) & (chance < _TWIN + _JUNIOR) & (gender[pairs] == 1)
                    & (gender[pairs + 1] == 1)]
    homes = pairs[(chance >= _TWIN + _JUNIOR) & (chance < _TWIN + _JUNIOR + _HOUSEHOLD)]
    for who in (twins, juniors, homes):
        last[who + 1], zip5[who + 1] = last[who], zip5[who]
    born[twins + 1] = born[twins]
    first[juniors + 1] = first[juniors]


def _day(generator: np.random.Generator, year: NDArray[np.integer],
         tables: Tables) -> NDArray[np.uint16]:
    """A day of each year, as days since 1900."""
    share = generator.random(len(year), dtype=np.float32)
    within = np.minimum((share * tables.year_days[year]).astype(np.int64),
                        tables.year_days[year] - 1)
    day: NDArray[np.uint16] = (tables.year_start[year] + within).astype(np.uint16)
    return day


@lru_cache
def load() -> Tables:
    """Lookup tables from the file; index 0 of a name stands for the rare ones."""
    with np.load(TABLE) as file:
        made = {name: file[name] for name in file.files}
    generator = np.random.default_rng(0)
    count, race = made["surname_count"].astype(float), made["surname_race"].astype(float)
    surname = []
    for which in range(_RACES):
        weight = count * race[:, which] / 100
        surname.append(_expanded(np.append(weight.sum() * (1 / _LISTED - 1), weight),
                                 _SURNAME_BITS))
    soundex_last = np.concatenate([
        [0], made["surname_soundex"],
        generator.choice(made["surname_soundex"], _RARE_SURNAMES)]).astype(np.uint16)
    rare = generator.integers(0, len(made["first_initial"]), _RARE_FIRST)
    initials, soundex_first = (np.concatenate([[0], made[name], made[name][rare]])
                               for name in ("first_initial", "first_soundex"))
    years = FIRST_YEAR + np.arange(len(made["births"]))
    start = np.array([(np.datetime64(f"{y}-01-01") - EPOCH).astype(int) for y in [*years,
                                                                                  years[-1] + 1]])
    people = made["zip_people"].astype(float)
    small = np.bincount(made["zip_zip3"], people) < _LEAST_ZIP3
    return Tables(
        surname, _first_names(made), _expanded((made["births"] * made["alive"]).ravel(),
                                               _BIRTH_BITS),
        _by_byte(made["zip_race"]), np.where(small[made["zip_zip3"]], 0, made["zip_people"]),
        made["zip_state"], made["states"].tolist(), start[:-1], np.diff(start),
        initials.astype(np.uint8), soundex_first.astype(np.uint16), soundex_last,
        made["zip_zip3"])


def _first_names(made: dict[str, NDArray[np.generic]]) -> Table:
    """By year, sex and race, [years * 2 * 4, 2^15]."""
    races = np.maximum(made["first_race"].astype(float), 0.5)
    rows = []
    for year, totals in enumerate(made["births"]):
        for sex, total in enumerate(totals):
            of = (made["birth_year"] == FIRST_YEAR + year) & (made["birth_male"] == sex)
            name, births = made["birth_name"][of], made["birth_count"][of].astype(float)
            others = max(0.0, float(total) - births.sum()) / float(total)
            for race in range(_RACES):
                weight = births * races[name, race]
                table = _expanded(np.append(weight.sum() * others / (1 - others), weight),
                                  _FIRST_BITS)
                rows.append(np.append(0, name + 1)[table])
    return np.array(rows, dtype=np.uint32)


def _places(states: tuple[str, ...]) -> Table:
    """ZIP codes of some states, or of all, by a random index.

    Raises:
        InputError: no such state.
    """
    tables = load()
    unknown = [state for state in states if state not in tables.states]
    if unknown:
        raise InputError(f"state is {unknown[0]!r}; allowed: {', '.join(tables.states)}")
    chosen = np.isin(tables.zip_state, [tables.states.index(state) for state in states])
    people = tables.zip_people.astype(float)
    return _expanded(np.where(chosen, people, 0) if states else people, _ZIP_BITS)


def _expanded(weight: NDArray[np.float64], bits: int) -> Table:
    """A table of 2^bits entries in which each index is as frequent as its weight says.

    Systematic sampling: an index whose share is below one entry is in with that chance.
    """
    edge = np.cumsum(weight) / weight.sum()
    at = (np.arange(1 << bits) + 0.5) / (1 << bits)
    return np.minimum(np.searchsorted(edge, at, side="right"), len(weight) - 1).astype(np.uint32)


def _by_byte(shares: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Race by a random byte, [ZIPs, 256], from percents [ZIPs, 4]."""
    edge = np.cumsum(np.maximum(shares.astype(float), 1e-9), axis=1)
    edge /= edge[:, -1:]
    at = (np.arange(256) + 0.5) / 256
    race: NDArray[np.uint8] = (at[None, :, None] >= edge[:, None, :-1]).sum(2).astype(np.uint8)
    return race

