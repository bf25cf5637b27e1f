"""Synthetic people, drawn from public-domain tables: up to 250 million, by seed.

Race of a ZIP code -> surname; year of birth and sex from births and survival -> first name, given
the race; a day of that year. Surnames that the Census does not list (12.1 % of people) are drawn
from six million made-up ones. These are no voter registry: neighbours, fashions of a region and
immigration by place are missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.linkage.keys import EPOCH, Keys, People, keys
from simulations.lookup_tables import (
    BIRTH_BITS,
    FIRST_BITS,
    FIRST_YEAR,
    RACES,
    RARE_FIRST,
    RARE_SURNAMES,
    SURNAME_BITS,
    ZIP_BITS,
    Table,
    Tables,
    expanded,
    load,
)

TRISTATE = "FL,NC,OH"
REGISTRANTS = 30_927_286  # of the paper's three registries
LARGEST = 250_000_000
CHUNK = 1 << 21
_BOOTSTRAP, _WHO, _ZIP3S = 1, 2, 3  # keep their random numbers apart from the registry's
# Of people: those with a twin of their surname and home, of men with a father or son of their name,
# and those who share surname and home with one adult. Assumed, not counted.
_TWIN, _JUNIOR, _HOUSEHOLD = 0.008, 0.02, 0.45


@dataclass(frozen=True)
class Population:
    """People that can be drawn, again and again the same.

    Args:
        n: 1 to 250 million.
        seed: of all that is random.
        where: states with commas; `US`: all of them; `national`: the paper's bootstrap, names, sex
            and year with replacement from a registry of three states, ZIP codes of all states.
        zip3s: 3-digit ZIP areas, chosen at random, that all live in; 0: no such limit.
        families: whether some are twins, namesakes of a parent, or share surname and home. A
            sample of a registry holds both of a pair more rarely the smaller it is. The bootstrap
            knows none, as its draws are independent.

    Raises:
        InputError: n, a state or the number of areas is out of range.
    """

    n: int
    seed: int = 0
    where: str = TRISTATE
    zip3s: int = 0
    families: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.n <= LARGEST:
            raise InputError(f"population is {self.n}; allowed: 1 to {LARGEST}")
        if self.families and self.where == "national":
            raise InputError("families is True with where=national, whose draws are independent; "
                             "allowed: states, or US")
        self._zip_people()

    def pieces(self) -> Iterator[People]:
        """The people, some two million at a time."""
        return self._bootstrap() if self.where == "national" else self._registry()

    def people(self) -> People:
        """All at once, 13 bytes each."""
        return _joined(list(self.pieces()))

    def keys(self, tokens: Sequence[str]) -> dict[str, Keys]:
        """Keys of `common.linkage.keys` by each token, 8 bytes a person; no person is kept."""
        made = {token: np.empty(self.n, np.uint64) for token in tokens}
        start = 0
        for piece in self.pieces():
            for token, of in made.items():
                of[start : start + len(piece)] = keys(token, piece)
            start += len(piece)
        return made

    @property
    def registrants(self) -> int:
        """Adults of these states who are registered, at the rate of the paper's three."""
        tables, here = load(), self._zip_people().sum()
        three = _of_states(tables, TRISTATE).sum()
        return max(1, round(REGISTRANTS * float(here) / float(three)))

    def _registry(self) -> Iterator[People]:
        tables, places = load(), expanded(self._zip_people(), ZIP_BITS)
        share = min(1.0, self.n / self.registrants) if self.families else 0.0
        for number, rows in enumerate(_sizes(self.n)):
            yield _drawn(rows, np.random.default_rng([self.seed, number]), tables, places, share)

    def _bootstrap(self) -> Iterator[People]:
        tables, places = load(), expanded(self._zip_people(), ZIP_BITS)
        if self.n <= CHUNK:  # of a registry that few are drawn from, only these few need names
            drawn, place = np.unique(self._who(0, self.n), return_inverse=True)
            registry, places_of = _three_states(len(drawn), self.seed), [place]
        else:
            registry, places_of = _three_states(REGISTRANTS, self.seed), []
        for number, rows in enumerate(_sizes(self.n)):
            generator = np.random.default_rng([self.seed, number, _BOOTSTRAP])
            of = registry.part(places_of[number] if places_of else self._who(number, rows))
            year = (EPOCH + of.born).astype("datetime64[Y]").astype(np.int64) + 1970
            yield _people(tables, of.first, of.last, _day(generator, year - FIRST_YEAR, tables),
                          of.gender, _at_random(generator, places, rows))

    def _who(self, number: int, rows: int) -> NDArray[np.int64]:
        """Numbers of the registrants in a piece of the bootstrap."""
        return np.random.default_rng([self.seed, number, _WHO]).integers(0, REGISTRANTS, rows)

    def _zip_people(self) -> NDArray[np.float64]:
        """People of each ZIP code who may be drawn."""
        tables = load()
        people = _of_states(tables, "US" if self.where == "national" else self.where)
        if self.zip3s:
            there = np.unique(tables.zip3_of[people > 0])
            if not 0 < self.zip3s <= len(there):
                raise InputError(f"zip3s is {self.zip3s}; allowed: 0 to {len(there)}")
            chosen = np.random.default_rng([self.seed, 0, _ZIP3S]).permutation(there)[: self.zip3s]
            people = np.where(np.isin(tables.zip3_of, chosen), people, 0)
        return people


@lru_cache(maxsize=1)
def _three_states(n: int, seed: int) -> People:
    """The registry that the bootstrap draws from; kept, as the next population has the same."""
    return Population(n, seed).people()


def _of_states(tables: Tables, where: str) -> NDArray[np.float64]:
    """People of each ZIP code, 0 outside these states.

    Raises:
        InputError: no such state.
    """
    people = tables.zip_people.astype(float)
    if where == "US":
        return people
    states = where.split(",")
    if unknown := [state for state in states if state not in tables.states]:
        raise InputError(f"state is {unknown[0]!r}; allowed: national, US, "
                         f"{', '.join(tables.states)}")
    return np.where(np.isin(tables.zip_state, [tables.states.index(s) for s in states]), people, 0)


def _sizes(n: int) -> list[int]:
    """Of the pieces."""
    return [min(CHUNK, n - start) for start in range(0, n, CHUNK)]


def _people(tables: Tables, first: Table, last: Table, born: NDArray[np.uint16],
            gender: NDArray[np.uint8], zip5: NDArray[np.uint16]) -> People:
    return People(first, last, born, gender, zip5, tables.initials, tables.soundex_first,
                  tables.soundex_last, tables.zip3_of)


def _joined(pieces: list[People]) -> People:
    columns = (np.concatenate([getattr(piece, name) for piece in pieces])
               for name in ("first", "last", "born", "gender", "zip5"))
    return _people(load(), *columns)


def _drawn(n: int, generator: np.random.Generator, tables: Tables, places: Table,
           share: float) -> People:
    """A piece; `share`: of the families that are complete in it."""
    zip5 = _at_random(generator, places, n)
    race = tables.zip_race[zip5, generator.integers(0, 256, n, dtype=np.uint8)]
    birth = tables.birth[generator.integers(0, 1 << BIRTH_BITS, n, dtype=np.uint32)]
    at = generator.integers(0, 1 << SURNAME_BITS, n, dtype=np.uint32)
    last = np.empty(n, np.uint32)
    for which, table in enumerate(tables.surname):
        mine = race == which
        last[mine] = table[at[mine]]
    rare = last == 0
    last[rare] = len(tables.soundex_last) - 1 - generator.integers(
        0, RARE_SURNAMES, int(rare.sum()), dtype=np.uint32)
    first = tables.first[birth * RACES + race,
                         generator.integers(0, 1 << FIRST_BITS, n, dtype=np.uint16)]
    rare = first == 0
    first[rare] = len(tables.initials) - 1 - generator.integers(0, RARE_FIRST, int(rare.sum()),
                                                                dtype=np.uint32)
    people = _people(tables, first, last, _day(generator, birth >> 1, tables),
                     (birth & 1).astype(np.uint8), zip5)
    if share:
        _relate(generator, people, share)
    return people


def _relate(generator: np.random.Generator, people: People, share: float) -> None:
    """Make every second person of some pairs a twin, a namesake or a housemate of the first."""
    pairs = np.arange(0, len(people) - 1, 2)
    chance = generator.random(len(pairs)) / share
    twins = pairs[chance < _TWIN]
    juniors = pairs[(chance >= _TWIN) & (chance < _TWIN + _JUNIOR) & (people.gender[pairs] == 1)
                    & (people.gender[pairs + 1] == 1)]
    homes = pairs[(chance >= _TWIN + _JUNIOR) & (chance < _TWIN + _JUNIOR + _HOUSEHOLD)]
    for who in (twins, juniors, homes):
        people.last[who + 1], people.zip5[who + 1] = people.last[who], people.zip5[who]
    people.born[twins + 1] = people.born[twins]
    people.first[juniors + 1] = people.first[juniors]


def _at_random(generator: np.random.Generator, places: Table, n: int) -> NDArray[np.uint16]:
    return places[generator.integers(0, 1 << ZIP_BITS, n, dtype=np.uint32)].astype(np.uint16)


def _day(generator: np.random.Generator, year: NDArray[np.integer],
         tables: Tables) -> NDArray[np.uint16]:
    """A day of each year, as days since 1900."""
    share = generator.random(len(year), dtype=np.float32)
    within = np.minimum((share * tables.year_days[year]).astype(np.int64),
                        tables.year_days[year] - 1)
    day: NDArray[np.uint16] = (tables.year_start[year] + within).astype(np.uint16)
    return day
