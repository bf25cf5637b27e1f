"""`fedrean link risk`: what a recipient of tokens and demographics could tell from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from common.errors import InputError

# Figure -> how it is headed.
HEADS = {"reidentified": "re-identified", "unblinded": "unblinded", "non_unique": "repeated",
         "without_year_of_birth": "no year", "without_demographics": "no q",
         "one_value_each": "one value"}

def risk(
    population: Annotated[int, typer.Option(help="Synthetic people, up to 250 million; some 16 "
                                                 "bytes of memory each.")] = 1_000_000,
    people: Annotated[Path | None, typer.Option(
        help="CSV of people, as `link tokenize` takes it, attacked instead of synthetic ones.")]
    = None,
    tokens_file: Annotated[Path | None, typer.Option(
        help="CSV of what would be released, attacked instead: column token, and any of year, "
             "gender, zip3.")] = None,
    tokens: Annotated[str, typer.Option(help="Of A to F and P, with commas.")] = "A,B,C,D,E,F,P",
    where: Annotated[str, typer.Option(help="Where synthetic people live: states with commas, US, "
                                            "or national, the paper's bootstrap.")] = "FL,NC,OH",
    seeds: Annotated[int, typer.Option(help="Synthetic populations, for intervals.")] = 3,
    families: Annotated[bool, typer.Option(help="Twins, namesakes and households.")] = False,
    no_year_of_birth: Annotated[bool, typer.Option(
        "--no-year-of-birth", help="The year of birth is not released.")] = False,
    fail_above: Annotated[float | None, typer.Option(
        help="Exit 1 if a token's re-identified share is above this.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack linkage tokens and the demographics beside them; shares of people, not percent.

    \b
    A  Soundex of first and last name, birthday, gender    B  initial, last name, birthday, gender
    C  Soundex of first and last name, 3-digit ZIP         D  first and last name, birthday, ZIP
    E  Soundex of first and last name, birthday            F  initial, last name, birthday
    P  first and last name, birthday: what `link tokenize` makes unless told otherwise

    The attacker knows everybody's name, birthday and address. Beside each token stands what is left
    without the year of birth; with no demographics at all, as where an agent matches tokens that
    nobody sees beside them; and where the matched identity has one value of each, that of one of
    its records. D and P show what a precise token is worth.
    """
    from simulations import token_risk
    from simulations.population import Population

    console = Console(stderr=as_json)
    if people and tokens_file:
        raise InputError(f"people is '{people}' and tokens-file is '{tokens_file}'; give one")
    chosen = [token for token in tokens.split(",") if token]
    if tokens_file:
        found = token_risk.of_file(tokens_file, not no_year_of_birth)
    elif people:
        found = token_risk.of_people(people, chosen, not no_year_of_birth)
    else:
        drawn = Population(population, 0, where, families=families)
        found = token_risk.of_population(drawn, chosen, seeds, not no_year_of_birth, console.print)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        _show(console, found)
    worst = max(found["tokens"].items(), key=lambda item: item[1]["reidentified"]["value"])
    if fail_above is not None and worst[1]["reidentified"]["value"] > fail_above:
        console.print(f"token {worst[0]}: {worst[1]['reidentified']['value']:.6f} are "
                      f"re-identified, above {fail_above:g}", highlight=False)
        raise typer.Exit(1)


def _show(console: Console, found: dict[str, Any]) -> None:
    names = {name: head for name, head in HEADS.items()
             if any(name in leaves for leaves in found["tokens"].values())}
    table = Table("token", *names.values(), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
                  show_edge=False, title=f"{found['people']:,} people, {found['where']}: "
                                         f"{found['of']}")
    for token, leaves in found["tokens"].items():
        table.add_row(token, *(f"{leaves[name]['value']:.6f}" for name in names))
    console.print(table)
