"""The linkage risk paper's tables and figures on synthetic people, cell by cell.

A cell is one population and one question; it is kept, so an interrupted study goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from common.errors import InputError
from common.linkage.containment import attack_contained
from common.linkage.fingerprint_attack import Risk, attack
from common.linkage.keys import TOKENS, People, group_mask, keys
from common.linkage.two_tokens import attack_two
from common.results import read_json, write_json
from simulations.link_risk import SYNTHETIC
from simulations.population import LARGEST, TRISTATE, draw, national
from simulations.studies.linkage_paper import NON_UNIQUE, RISK, RISK_OF, SUPERSET, TIMES

Progress = Callable[[str], None]
Cell = Callable[[], dict[str, float]]
FEW_ZIP3 = 30
_TWO_AT_MOST = 25_000_000  # people with two tokens, for which rows are held twice
_SMALLEST = 10_000


def study(folder: Path, largest: int, seed: int, families: bool,
          progress: Progress) -> dict[str, Any]:
    """Every cell up to `largest` people; results.json in `folder`.

    Args:
        folder: of the study; finished cells in it are taken.
        largest: people, from 10,000 to 250 million.
        seed: of the populations.
        families: whether some people are related.
        progress: told of each cell.

    Raises:
        InputError: a number is out of range, or the folder holds a study of other settings.
    """
    if not _SMALLEST <= largest <= LARGEST:
        raise InputError(f"largest is {largest}; allowed: {_SMALLEST} to {LARGEST}")
    folder.mkdir(parents=True, exist_ok=True)
    asked, kept = {"seed": seed, "families": families}, folder / "asked.json"
    if kept.exists() and read_json(kept) != asked:
        raise InputError(f"{folder} holds a study of {read_json(kept)}; allowed: these, or another "
                         "--run-dir")
    write_json(kept, asked)
    made = {}
    for name, cell in cells(largest, seed, families).items():
        file = folder / f"{name}.json"
        if not file.exists():
            progress(name.replace("-", " "))
            write_json(file, cell())
        made[name] = read_json(file)
    results = {"largest": largest, **asked, "of": SYNTHETIC, "cells": made}
    write_json(folder / "results.json", results)
    return results


def cells(largest: int, seed: int, families: bool) -> dict[str, Cell]:
    """Name -> how its figures are made; those of one population follow each other."""
    found: dict[str, Cell] = {}
    people = partial(_tristate, largest, seed, families)
    for n in (n for n in sorted({*NON_UNIQUE, RISK_OF}) if n <= largest):
        for token in TOKENS:
            found[f"tristate-{n}-{token}"] = partial(_first, people, n, token)
        for token in "AB":
            found[f"no_year-{n}-{token}"] = partial(_first, people, n, token, year=False)
            found[f"few_zip3-{n}-{token}"] = partial(_few, people, n, token)
        if n <= _TWO_AT_MOST:
            found[f"two-{n}-A+B"] = partial(_two, people, n)
    register = partial(_national, largest, seed)
    for n in (n for n in SUPERSET if 4 * n <= largest):
        for token in "AB":
            found[f"national-{n}-{token}"] = partial(_first, register, n, token)
        for times in TIMES:
            found[f"superset-{n}-{times}"] = partial(_superset, register, n, times)
    return found


def _first(people: Callable[[], People], n: int, token: str, year: bool = True) -> dict[str, float]:
    """Of the first n people."""
    return _one(people().part(slice(n)), token, year)


def _one(people: People, token: str, year: bool = True) -> dict[str, float]:
    return _figures(attack(keys(token, people, year=year), group_mask(token)))


def _two(people: Callable[[], People], n: int) -> dict[str, float]:
    some = people().part(slice(n))
    return _figures(attack_two(keys("A", some), keys("B", some),
                               (group_mask("A"), group_mask("B"))))


def _superset(people: Callable[[], People], n: int, times: int) -> dict[str, float]:
    """Of the first n people, where the register holds `times` as many."""
    if times == 1:
        return _first(people, n, "B")
    some, register = people().part(slice(n)), people().part(slice(n * times))
    return _figures(attack_contained(keys("B", some), keys("B", register), group_mask("B")))


def _few(people: Callable[[], People], n: int, token: str) -> dict[str, float]:
    """Of the first n in 30 of the 3-digit areas, or of all there where they are fewer."""
    everybody = people()
    where = everybody.zip3_of[everybody.zip5]
    chosen = np.random.default_rng(0).choice(np.unique(where), FEW_ZIP3, replace=False)
    return _one(everybody.part(np.flatnonzero(np.isin(where, chosen))[:n]), token)


def _figures(risk: Risk) -> dict[str, float]:
    return {"reidentified": 100 * risk.reidentified, "unblinded": 100 * risk.unblinded,
            "non_unique": 100 * risk.non_unique, "people": risk.n}


@lru_cache(1)
def _tristate(n: int, seed: int, families: bool) -> People:
    return draw(n, seed, TRISTATE, families=families)


@lru_cache(1)
def _national(n: int, seed: int) -> People:
    _tristate.cache_clear()
    return national(n, seed)


def table_risk(results: dict[str, Any]) -> list[list[str]]:
    """Table 1: token, re-identified and unblinded, ours, the paper's, difference in percent."""
    return [[token, *_beside(_cell(results, f"tristate-{RISK_OF}-{token}", "reidentified"), ours),
             *_beside(_cell(results, f"tristate-{RISK_OF}-{token}", "unblinded"), unblinded)]
            for token, (ours, unblinded) in RISK.items()
            if f"tristate-{RISK_OF}-{token}" in results["cells"]]


def table_superset(results: dict[str, Any]) -> list[list[str]]:
    """Table 2: people, then ours and the paper's for each size of the reference."""
    rows = []
    for n, paper in SUPERSET.items():
        found = [_cell(results, f"superset-{n}-{k}", "reidentified") for k in TIMES]
        if any(value is not None for value in found):
            rows.append([f"{n:,}", *(text for value, theirs in zip(found, paper, strict=True)
                                     for text in _beside(value, theirs))])
    return rows


def table_non_unique(results: dict[str, Any]) -> list[list[str]]:
    """Table 3: people, then ours, the paper's and the difference for A to D."""
    rows = []
    for n, paper in NON_UNIQUE.items():
        found = [_cell(results, f"tristate-{n}-{token}", "non_unique") for token in "ABCD"]
        if any(value is not None for value in found):
            rows.append([f"{n:,}", *(text for value, theirs in zip(found, paper, strict=True)
                                     for text in _beside(value, theirs))])
    return rows


def _cell(results: dict[str, Any], name: str, figure: str) -> float | None:
    cell = results["cells"].get(name)
    return None if cell is None else float(cell[figure])


def _beside(ours: float | None, paper: float) -> tuple[str, str, str]:
    """Ours, the paper's, and the relative difference in percent."""
    if ours is None:
        return "-", f"{paper:g}", "-"
    apart = f"{100 * (ours / paper - 1):+.0f}" if paper else "-"
    return f"{ours:.3f}", f"{paper:g}", apart
