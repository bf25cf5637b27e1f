"""`fedrean link risk`: what a recipient of tokens and demographics could tell from them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from common.errors import InputError

SYNTHETIC = "synthetic people, not a voter registry"
FIGURES = ("reidentified", "unblinded", "non_unique")


def risk(
    population: Annotated[int, typer.Option(help="Synthetic people, up to 250 million; 23 bytes of "
                                                 "memory each.")] = 1_000_000,
    tokens_file: Annotated[Path | None, typer.Option(
        help="CSV of what would be released: column token, and any of year, gender, zip3. It is "
             "attacked instead of synthetic people.")] = None,
    tokens: Annotated[str, typer.Option(help="Of A to F, with commas.")] = "A,B,C,D,E,F",
    states: Annotated[str, typer.Option(help="Where the people live: states with commas, or "
                                             "national.")] = "FL,NC,OH",
    seeds: Annotated[int, typer.Option(help="Populations, for intervals.")] = 3,
    families: Annotated[bool, typer.Option(help="Twins, namesakes and households.")] = False,
    fail_above: Annotated[float | None, typer.Option(
        help="Exit 1 if a token's re-identified share is above this.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack linkage tokens and the demographics beside them; shares of people, not percent.

    \b
    A  Soundex of first and last name, birthday, gender    B  initial, last name, birthday, gender
    C  Soundex of first and last name, 3-digit ZIP         D  first and last name, birthday, ZIP
    E  Soundex of first and last name, birthday            F  initial, last name, birthday

    The attacker knows everybody's name, birthday and address. Beside each token stands what is left
    without the year of birth, and with no demographics at all, as where an agent matches tokens
    that nobody sees beside them.
    """
    console = Console(stderr=as_json)
    if tokens_file:
        found = of_file(tokens_file)
    else:
        chosen = [token for token in tokens.split(",") if token]
        found = of_population(population, chosen, states, seeds, families, console.print)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        _show(console, found)
    worst = max(found["tokens"].items(), key=lambda item: item[1]["reidentified"]["value"])
    if fail_above is not None and worst[1]["reidentified"]["value"] > fail_above:
        console.print(f"token {worst[0]}: {worst[1]['reidentified']['value']:.6f} are "
                      f"re-identified, above {fail_above:g}", highlight=False)
        raise typer.Exit(1)


def of_population(n: int, tokens: Sequence[str], states: str, seeds: int, families: bool,
                  progress: Callable[[str], None]) -> dict[str, Any]:
    """Risk of tokens in synthetic populations, each leaf with its interval over seeds.

    Args:
        n: people.
        tokens: of A to F.
        states: with commas, or "national".
        seeds: populations, at least 1.
        families: whether some people are related.
        progress: told what is done next.

    Raises:
        InputError: an unknown token or state, or a number out of range.
    """
    from common.linkage.fingerprint_attack import attack
    from common.linkage.keys import Q_MASK, TOKENS, group_mask, keys
    from simulations.population import draw

    if seeds < 1:
        raise InputError(f"seeds is {seeds}; allowed: 1 or more")
    if unknown := [token for token in tokens if token not in TOKENS]:
        raise InputError(f"token is {unknown[0]!r}; allowed: {', '.join(TOKENS)}")
    where = () if states == "national" else tuple(states.split(","))
    runs: dict[str, dict[str, list[Any]]] = {token: {"all": [], "no year": [], "none": []}
                                             for token in tokens}
    for seed in range(seeds):
        progress(f"population {seed + 1} of {seeds}")
        people = draw(n, seed, where, families=families)
        for token in tokens:
            mask = group_mask(token)
            runs[token]["all"].append(attack(keys(token, people), mask))
            runs[token]["no year"].append(attack(keys(token, people, year=False), mask))
            bare = keys(token, people)
            if token != "D":  # whose groups are told by year and ZIP, which are part of the token
                bare &= ~Q_MASK
                runs[token]["none"].append(attack(bare, mask))
    return {"people": n, "of": SYNTHETIC, "where": states, "tokens": {
        token: {**{name: _leaf([getattr(one, name) for one in of["all"]], n) for name in FIGURES},
                "without_year_of_birth": _leaf([one.reidentified for one in of["no year"]], n),
                "without_demographics": _leaf([one.reidentified for one in of["none"]] or [0.0], n)}
        for token, of in runs.items()}}


def of_file(file: Path) -> dict[str, Any]:
    """Risk of a file of tokens beside demographics; one population, so no intervals.

    Raises:
        InputError: it cannot be read, has no column `token`, or no row.
    """
    import numpy as np
    import pandas as pd

    from common.linkage.fingerprint_attack import attack
    from common.linkage.keys import Q_BITS

    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"tokens-file is '{file}'; it cannot be read as CSV: "
                         f"{' '.join(str(error).split())}") from None
    shown = [name for name in ("year", "gender", "zip3") if name in table]
    if "token" not in table or not len(table):
        raise InputError(f"tokens-file is '{file}' with {len(table)} rows and columns "
                         f"{', '.join(table.columns)}; needed are rows and a column token")
    table = table[table["token"] != ""]
    token = pd.factorize(table["token"])[0].astype(np.uint64)
    q = table.groupby(shown).ngroup().to_numpy(np.uint64) if shown else np.zeros(len(table),
                                                                                 np.uint64)
    if len(q) and int(q.max()) >= 1 << Q_BITS:
        raise InputError(f"tokens-file is '{file}' with {int(q.max()) + 1} different demographics; "
                         f"allowed are {1 << Q_BITS}")
    found = attack((token << np.uint64(Q_BITS)) | q,
                   np.uint64(0xFFFF_FFFF_FFFF_FFFF ^ ((1 << Q_BITS) - 1)))
    return {"people": found.n, "of": str(file), "where": ", ".join(shown) or "no demographics",
            "tokens": {"file": {name: _leaf([getattr(found, name)], found.n)
                                for name in FIGURES}}}


def _leaf(values: Sequence[float], n: int) -> dict[str, Any]:
    """Mean over populations with a 95 % interval of Student's t, from two on."""
    from scipy.stats import t

    from common.results import Estimate

    mean, count = sum(values) / len(values), len(values)
    if count == 1:
        return Estimate(mean, math.nan, math.nan, n).as_dict()
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(t.ppf(0.975, count - 1)) * math.sqrt(variance / count)
    return Estimate(mean, max(0.0, mean - half), mean + half, n).as_dict()


def _show(console: Console, found: dict[str, Any]) -> None:
    columns = list(next(iter(found["tokens"].values())))
    table = Table("token", *(name.replace("_", " ") for name in columns), box=box.SIMPLE_HEAD,
                  padding=(0, 1, 0, 0), show_edge=False,
                  title=f"{found['people']} people, {found['where']}: {found['of']}")
    for token, leaves in found["tokens"].items():
        table.add_row(token, *(f"{leaves[name]['value']:.6f}" for name in columns))
    console.print(table)
