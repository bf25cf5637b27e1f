"""How many people tokens and demographics give away: synthetic people, or those of a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import InputError
from common.linkage.fingerprint_attack import attack, one_value_each
from common.linkage.keys import (
    Q_BITS,
    Q_MASK,
    TOKENS,
    Keys,
    group_mask,
    without_demographics,
    without_year,
)
from common.linkage.tokens import TOKENS as ATTRIBUTES
from common.results import Estimate
from simulations.population import Population

SYNTHETIC = "synthetic people, not a voter registry"
FIGURES = ("reidentified", "unblinded", "non_unique")
COLUMNS = ("year", "gender", "zip3")


def of_population(of: Population, tokens: Sequence[str], seeds: int, year: bool,
                  progress: Callable[[str], None]) -> dict[str, Any]:
    """Risk of tokens in synthetic populations, each leaf with its interval over seeds.

    Args:
        of: the first population; the others have the seeds that follow.
        tokens: of A to F and P.
        seeds: populations, at least 1.
        year: whether the year of birth is released.
        progress: told what is done next.

    Raises:
        InputError: an unknown token, or a number out of range.
    """
    if seeds < 1:
        raise InputError(f"seeds is {seeds}; allowed: 1 or more")
    _check(tokens)
    runs: dict[str, list[dict[str, float]]] = {token: [] for token in tokens}
    for number in range(seeds):
        drawn = replace(of, seed=of.seed + number)
        for some in batches(tokens, of.n):
            progress(f"population {number + 1} of {seeds}, {of.n:,} people: {', '.join(some)}")
            for token, own in drawn.keys(some).items():
                runs[token].append(figures(own, group_mask(token), year))
    return {"people": of.n, "of": SYNTHETIC, "where": of.where, "tokens": {
        token: {name: leaf([run[name] for run in each], of.n) for name in each[0]}
        for token, each in runs.items()}}


def batches(tokens: Sequence[str], n: int) -> list[list[str]]:
    """Tokens whose keys are made in one pass over n people: as many as 2 GB hold."""
    size = max(1, int(2e9 / (8 * n)))
    return [list(tokens[start : start + size]) for start in range(0, len(tokens), size)]


def figures(keys: Keys, mask: np.uint64, year: bool = True) -> dict[str, float]:
    """The attack, and what is left of it with less beside the token; `keys` are spent."""
    if not year:
        without_year(keys)
    risk = attack(keys, mask)
    found = {name: getattr(risk, name) for name in FIGURES}
    found["one_value_each"] = one_value_each(keys, mask)
    if year:
        without_year(keys)
        found["without_year_of_birth"] = attack(keys, mask).reidentified
    found["without_demographics"] = attack(keys, without_demographics(keys)).reidentified
    return found


def of_people(file: Path, tokens: Sequence[str], year: bool) -> dict[str, Any]:
    """Risk of tokens of people in a CSV file; who lacks an attribute of a token has none.

    Raises:
        InputError: as `people_of` raises, or an unknown token.
    """
    from simulations.link_commands import people_of

    _check(tokens)
    people = list(people_of(file).values())
    shown = [(p.born[:4] if year else "", p.gender, p.zip5[:3]) for p in people]
    found = {}
    for token in tokens:
        rows = [(parts, q) for parts, q in zip(map(ATTRIBUTES[token], people), shown, strict=True)
                if all(parts)]
        found[token] = _of_rows(*zip(*rows, strict=True)) if rows else _of_rows((), ())
    return {"people": len(people), "of": str(file), "where": _columns(year), "tokens": found}


def of_file(file: Path, year: bool = True) -> dict[str, Any]:
    """Risk of a file of tokens beside demographics; one population, so no intervals.

    Raises:
        InputError: it cannot be read, has no column `token`, or no row.
    """
    import pandas as pd

    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False, comment="#")
    except (OSError, ValueError) as error:
        raise InputError(f"tokens-file is '{file}'; it cannot be read as CSV: "
                         f"{' '.join(str(error).split())}") from None
    shown = [name for name in COLUMNS[not year :] if name in table]
    if "token" not in table or not len(table):
        raise InputError(f"tokens-file is '{file}' with {len(table)} rows and columns "
                         f"{', '.join(table.columns)}; needed are rows and a column token")
    table = table[table["token"] != ""]
    q = list(zip(*(table[name] for name in shown), strict=True)) or [()] * len(table)
    return {"people": len(table), "of": str(file), "where": ", ".join(shown) or "no demographics",
            "tokens": {"file": _of_rows(table["token"], q)}}


def _of_rows(tokens: Sequence[Hashable], shown: Sequence[Hashable]) -> dict[str, Any]:
    """Figures of rows with any tokens and any demographics."""
    numbers: list[dict[Hashable, int]] = [{}, {}]
    token, q = (np.array([known.setdefault(value, len(known)) for value in values], np.uint64)
                for known, values in zip(numbers, (tokens, shown), strict=True))
    if len(numbers[1]) > 1 << Q_BITS:
        raise InputError(f"{len(numbers[1])} different demographics; allowed are {1 << Q_BITS}")
    keys = (token << np.uint64(Q_BITS)) | q
    mask = np.uint64(0xFFFF_FFFF_FFFF_FFFF) ^ Q_MASK
    risk = attack(keys, mask)
    found = {name: leaf([getattr(risk, name)], risk.n) for name in FIGURES}
    found["one_value_each"] = leaf([one_value_each(keys, mask)], risk.n)
    return found


def leaf(values: Sequence[float], n: int) -> dict[str, Any]:
    """Mean over populations with a 95 % interval of Student's t, from two on."""
    from scipy.stats import t

    mean, count = sum(values) / len(values), len(values)
    if count == 1:
        return Estimate(mean, math.nan, math.nan, n).as_dict()
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(t.ppf(0.975, count - 1)) * math.sqrt(variance / count)
    return Estimate(mean, max(0.0, mean - half), mean + half, n).as_dict()


def _check(tokens: Sequence[str]) -> None:
    if not tokens or not set(tokens) <= set(TOKENS):
        raise InputError(f"tokens is {','.join(tokens)!r}; allowed: some of {','.join(TOKENS)}")


def _columns(year: bool) -> str:
    return ", ".join(COLUMNS[not year :])
