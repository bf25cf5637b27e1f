"""The linkage risk paper's tables and figures on synthetic people, cell by cell.

A cell is one population and one question. It is kept, so an interrupted study goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common.errors import InputError
from common.linkage.containment import attack_contained
from common.linkage.fingerprint_attack import Risk, attack
from common.linkage.keys import TOKENS, group_mask, without_year
from common.linkage.two_tokens import attack_two
from common.results import read_json, write_json
from simulations.population import LARGEST, TRISTATE, Population
from simulations.studies.linkage_paper import NON_UNIQUE, RISK_OF, SUPERSET, TIMES
from simulations.token_risk import SYNTHETIC, batches, leaf

Progress = Callable[[str], None]
Risks = dict[str, dict[str, float]]
STATES = tuple(TRISTATE.split(","))
NATIONAL = (*SUPERSET, 100_000_000, 250_000_000)
ZIP3S = (30, 100, 300)
EVERYTHING = "".join(TOKENS)
SMALLEST = 10_000
SMALLEST_DRAWN = 160_000  # people of the smallest population in the figures
_TWO_AT_MOST = 25_000_000  # people with two tokens, for which each row is held several times


@dataclass(frozen=True)
class Cell:
    """A question to a population.

    Args:
        population: of whom.
        tokens: each attacked alone, unless `kind` says otherwise.
        kind: "alone", "together" (two tokens of each person), or "superset" (the reference holds
            `times` as many people as the release).
        times: size of the reference over that of the release.
    """

    population: Population
    tokens: str
    kind: str = "alone"
    times: int = 1

    @property
    def group(self) -> str:
        """What its seeds have in common."""
        of = self.population
        parts = [self.kind, of.where.replace(",", "+"), str(of.n), self.tokens]
        parts += [f"{of.zip3s}zip3s"] * bool(of.zip3s) + ["families"] * of.families
        return "-".join(parts + [f"{self.times}x"] * (self.times > 1))

    def run(self) -> Risks:
        """Token -> its risk; "A+B" where there are two, "A, no year" without the year of birth."""
        if self.kind == "together":
            (one, first), (two, second) = self.population.keys(self.tokens).items()
            masks = group_mask(one), group_mask(two)
            return {"+".join(self.tokens): asdict(attack_two(first, second, masks))}
        if self.kind == "superset":
            return {self.tokens: asdict(self._superset())}
        found: Risks = {}
        for tokens in batches(self.tokens, self.population.n):
            for token, keys in self.population.keys(tokens).items():
                found[token] = asdict(attack(keys, group_mask(token)))
                if self.population.where == TRISTATE and token in "AB":
                    without_year(keys)
                    found[f"{token}, no year"] = asdict(attack(keys, group_mask(token)))
        return found

    def _superset(self) -> Risk:
        of, mask = self.population, group_mask(self.tokens)
        everybody = Population(of.n * self.times, of.seed, of.where).keys(self.tokens)[self.tokens]
        return attack_contained(everybody[: of.n].copy(), everybody, mask)


def study(folder: Path, largest: int, seeds: int, progress: Progress) -> dict[str, Any]:
    """Every cell up to `largest` people; results.json in `folder`.

    Args:
        folder: of the study; finished cells in it are taken.
        largest: people, from 10,000 to 250 million; of a reference, too.
        seeds: populations of each kind, at least 1.
        progress: told of each cell.

    Raises:
        InputError: a number is out of range.
    """
    if not SMALLEST <= largest <= LARGEST:
        raise InputError(f"largest is {largest}; allowed: {SMALLEST} to {LARGEST}")
    if seeds < 1:
        raise InputError(f"seeds is {seeds}; allowed: 1 or more")
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    asked = [(seed, cell) for seed in range(seeds) for cell in cells(largest, seed)]
    made: dict[str, list[Risks]] = defaultdict(list)
    for number, (seed, cell) in enumerate(asked, start=1):
        file = folder / "cells" / f"{cell.group}-seed{seed}.json"
        if not file.exists():
            progress(f"{number} of {len(asked)}: {cell.group.replace('-', ' ')}, seed {seed}")
            write_json(file, cell.run())
        made[cell.group].append(read_json(file))
    results = {"largest": largest, "seeds": seeds, "of": SYNTHETIC,
               "cells": {group: _over_seeds(runs) for group, runs in made.items()}}
    write_json(folder / "results.json", results)
    return results


def cells(largest: int, seed: int) -> Iterator[Cell]:
    """Those of one seed; those that draw from the same registry follow each other."""
    three = [n for n in sorted({*NON_UNIQUE, RISK_OF}) if n <= largest]
    for n in three:
        yield Cell(Population(n, seed), EVERYTHING)
        yield Cell(Population(n, seed, families=True), EVERYTHING)
    for state in STATES:
        for n in three:
            if SMALLEST_DRAWN <= n <= Population(1, seed, state).registrants:
                yield Cell(Population(n, seed, state), EVERYTHING)
    for n in [n for n in NATIONAL if n <= largest]:
        of = Population(n, seed, "national")
        yield Cell(of, "ABCEF")
        for times in TIMES[1:]:
            if n in SUPERSET and n * times <= largest:
                yield Cell(of, "B", "superset", times)
        if SMALLEST_DRAWN <= n <= _TWO_AT_MOST:
            yield Cell(of, "AB", "together")
            for zip3s in ZIP3S:
                yield Cell(Population(n, seed, "national", zip3s), "AB")


def _over_seeds(runs: list[Risks]) -> dict[str, dict[str, Any]]:
    return {token: {name: leaf([run[token][name] for run in runs], int(runs[0][token]["n"]))
                    for name in ("reidentified", "unblinded", "non_unique")} for token in runs[0]}
