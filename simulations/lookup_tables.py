"""Lookup tables that people are drawn with: a random index gives a name, a year or a place.

Made once from people/population.npz, which `simulations.population_table` writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.linkage.keys import EPOCH

TABLE = Path(__file__).parent / "people" / "population.npz"
FIRST_YEAR = 1932
SURNAME_BITS, FIRST_BITS, ZIP_BITS, BIRTH_BITS = 22, 15, 22, 20
RARE_SURNAMES, RARE_FIRST = 6_000_000, 60_000
RACES = 4
_LISTED = 0.8787  # of people have a surname that the Census lists
_LEAST_ZIP3 = 20_000  # people of a 3-digit ZIP that is released

Table = NDArray[np.uint32]


@dataclass(frozen=True)
class Tables:
    """What an index drawn at random stands for."""

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


@lru_cache
def load() -> Tables:
    """Lookup tables from the file; index 0 of a name stands for the rare ones."""
    with np.load(TABLE) as file:
        made = {name: file[name] for name in file.files}
    generator = np.random.default_rng(0)
    count, race = made["surname_count"].astype(float), made["surname_race"].astype(float)
    surname = []
    for which in range(RACES):
        weight = count * race[:, which] / 100
        surname.append(expanded(np.append(weight.sum() * (1 / _LISTED - 1), weight),
                                 SURNAME_BITS))
    soundex_last = np.concatenate([
        [0], made["surname_soundex"],
        generator.choice(made["surname_soundex"], RARE_SURNAMES)]).astype(np.uint16)
    rare = generator.integers(0, len(made["first_initial"]), RARE_FIRST)
    initials, soundex_first = (np.concatenate([[0], made[name], made[name][rare]])
                               for name in ("first_initial", "first_soundex"))
    years = FIRST_YEAR + np.arange(len(made["births"]))
    start = np.array([(np.datetime64(f"{y}-01-01") - EPOCH).astype(int) for y in [*years,
                                                                                  years[-1] + 1]])
    people = made["zip_people"].astype(float)
    small = np.bincount(made["zip_zip3"], people) < _LEAST_ZIP3
    return Tables(
        surname, _first_names(made), expanded((made["births"] * made["alive"]).ravel(),
                                               BIRTH_BITS),
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
            for race in range(RACES):
                weight = births * races[name, race]
                table = expanded(np.append(weight.sum() * others / (1 - others), weight),
                                  FIRST_BITS)
                rows.append(np.append(0, name + 1)[table])
    return np.array(rows, dtype=np.uint32)


def expanded(weight: NDArray[np.float64], bits: int) -> Table:
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
