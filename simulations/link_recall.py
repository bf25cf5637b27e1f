"""`fedrean link recall`: how many patients of two hospitals a token finds, when records disagree.

People are drawn by seed, with made-up names; what the second hospital wrote down may have a typing
error, a move, a married name, a missing birthday, an initial, or a suffix.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from common.errors import InputError
from common.linkage.tokens import TOKENS, person, token
from common.results import Estimate

_KEY = bytes(32)  # equality is all that is asked
_SYLLABLES = ("an", "ber", "ca", "da", "el", "fer", "go", "hen", "is", "jo", "ka", "lin", "ma",
              "no", "or", "per", "ri", "sen", "ta", "ur", "vi", "wel", "ya", "zo")
_FIRST, _LAST = 400, 6000  # different names, a few of them very common


@dataclass(frozen=True)
class Written:
    """One person as a hospital wrote him down."""

    first: str
    last: str
    born: str
    gender: str
    zip5: str


def recall(
    people: Annotated[int, typer.Option(help="Patients of each hospital.")] = 20_000,
    shared: Annotated[float, typer.Option(help="Share of them who are patients of both.")] = 0.2,
    errors: Annotated[float, typer.Option(help="Chance of each kind of disagreement.")] = 0.03,
    seed: Annotated[int, typer.Option(help="Of the people.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure recall and precision of every token for two hospitals of synthetic patients.

    Recall: of the patients of both, whom the token links. A patient who is missed stays charged
    for both hospitals. Precision: of the links, how many are right; a wrong one drops somebody's
    records.
    """
    found = measure(people, shared, errors, seed)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    table = Table("token", "recall", "precision", "links", box=box.SIMPLE_HEAD, show_edge=False,
                  title=f"{people} synthetic patients each, {found['both']} of both hospitals")
    for kind, leaves in found["tokens"].items():
        table.add_row(kind, *(f"{leaves[name]['value']:.4f}" for name in ("recall", "precision")),
                      str(leaves["precision"]["n"]))
    Console().print(table)


def measure(people: int, shared: float, errors: float, seed: int) -> dict[str, Any]:
    """Recall and precision of each token that needs no identifier, with exact intervals.

    Raises:
        InputError: a number is out of range.
    """
    if not 1 <= people <= 1_000_000:
        raise InputError(f"people is {people}; allowed: 1 to 1000000")
    for name, value in (("shared", shared), ("errors", errors)):
        if not 0 <= value <= 1:
            raise InputError(f"{name} is {value}; allowed: 0 to 1")
    generator = np.random.default_rng(seed)
    both = round(people * shared)
    drawn = draw(2 * people - both, generator)
    one, other = drawn[:people], [disagree(p, errors, generator) for p in drawn[people - both:]]
    tokens = {}
    for kind in (kind for kind in TOKENS if kind != "I"):
        ours, theirs = ([token(kind, person(*vars(p).values()), _KEY) for p in side]
                        for side in (one, other))
        tokens[kind] = _figures(ours, theirs, people - both, both)
    return {"people": people, "both": both, "of": "synthetic people", "errors": errors,
            "tokens": tokens}


def _figures(ours: Sequence[str], theirs: Sequence[str], first: int,
             both: int) -> dict[str, dict[str, Any]]:
    """Person i of the other side is person first + i of ours, for the `both` first of them."""
    where: dict[str, list[int]] = {}
    for i, value in enumerate(theirs):
        where.setdefault(value, []).append(i)
    links = [(i, j) for i, value in enumerate(ours) if value for j in where.get(value, [])]
    right = sum(i == first + j for i, j in links if j < both)
    return {"recall": _share(right, both), "precision": _share(right, len(links))}


def _share(hits: int, n: int) -> dict[str, Any]:
    from scipy.stats import binomtest

    if not n:
        return Estimate(float("nan"), float("nan"), float("nan"), 0).as_dict()
    interval = binomtest(hits, n).proportion_ci(method="exact")
    return Estimate(hits / n, interval.low, interval.high, n).as_dict()


def draw(n: int, generator: np.random.Generator) -> list[Written]:
    """People whose names are as unequally common as names are (Zipf)."""
    first, last = (_names(count, generator) for count in (_FIRST, _LAST))
    chosen = [generator.choice(len(names), n, p=_zipf(len(names))) for names in (first, last)]
    day = np.datetime64("1932-01-01") + generator.integers(0, 26_000, n)
    zips = 32_000 + generator.integers(0, 900, n)
    return [Written(first[a], last[b], str(d), "FM"[g], str(z)) for a, b, d, g, z in zip(
        *chosen, day, generator.integers(0, 2, n), zips, strict=True)]


def _names(count: int, generator: np.random.Generator) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        parts = generator.choice(len(_SYLLABLES), generator.integers(2, 5))
        found["".join(_SYLLABLES[i] for i in parts)] = None
    return list(found)


def _zipf(count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    weight = 1 / (np.arange(count) + 10.0)
    return np.asarray(weight / weight.sum())


def disagree(written: Written, chance: float, generator: np.random.Generator) -> Written:
    """What another hospital wrote down of the same person; each kind at its own chance."""
    kinds: list[Callable[[Written], Written]] = [
        lambda p: replace(p, first=_typed(p.first, generator)),
        lambda p: replace(p, last=_typed(p.last, generator)),
        lambda p: replace(p, zip5=str(32_000 + generator.integers(0, 900))),  # a move
        lambda p: replace(p, last=_names(1, generator)[0]) if p.gender == "F" else p,  # married
        lambda p: replace(p, last=f"{p.last} Jr.".upper()),  # which no token may mind
        lambda p: replace(p, born=""),
        lambda p: replace(p, first=p.first[0]),  # an initial alone
    ]
    for kind, happens in zip(kinds, generator.random(len(kinds)) < chance, strict=True):
        written = kind(written) if happens else written
    return written


def _typed(name: str, generator: np.random.Generator) -> str:
    """Two neighbouring letters exchanged, or one left out."""
    at = int(generator.integers(0, len(name) - 1))
    if generator.random() < 0.5:
        return name[:at] + name[at + 1] + name[at] + name[at + 2:]
    return name[:at] + name[at + 1:]
