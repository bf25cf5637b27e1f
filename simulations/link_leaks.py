"""`fedrean link leaks`: what tokens and released waveforms tell together, of a finished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table


def leaks(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    population: Annotated[int, typer.Option(help="Synthetic people who are released.")] = 1_000_000,
    tokens: Annotated[str, typer.Option(help="Of A to F and P, with commas.")] = "A,B,C,P",
    where: Annotated[str, typer.Option(help="Where the people live: states with commas, US, or "
                                            "national, as of `link risk`.")] = "FL,NC,OH",
    seed: Annotated[int, typer.Option(help="Of the people.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print leaks.json.")] = False,
) -> None:
    """Tell how often a released patient is identified by token, by waveform, and by both.

    The run's patients get synthetic names, birthdays and homes, many times over: each of the
    synthetic people has the waveforms of a patient of the same sex and age band. Where sex and age
    are withheld, they are guessed from the waveforms by someone who never saw the patient.

    Writes RUN/leaks.json and RUN/leaks.html. Missing networks of the auditor are trained first.
    """
    from common.results import read_json, write_json
    from server.attacks.case import Case
    from server.attacks.latent import evidence
    from server.bundles import load_bundles
    from server.run_directory import open_run
    from simulations.both_leaks import measure
    from simulations.leaks_page import header, rows, write_page
    from simulations.population import Population
    from simulations.study_commands import clock

    console = Console(stderr=as_json)
    people = Population(population, seed, where)
    tell, settings = clock(Console(stderr=True)), open_run(run)
    case = Case(load_bundles(run / "bundles"), settings, run / "audit", tell, run / "models")
    write_json(run / "leaks.json", measure(evidence(case), people,
                                           [t for t in tokens.split(",") if t], tell))
    results: dict[str, Any] = read_json(run / "leaks.json")
    page = write_page(run, results)
    if as_json:
        print(json.dumps(results, indent=1))
        return
    table = Table(*header(results), box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False,
                  title=f"identified of {results['people']} ({results['of']})")
    for name, *cells in rows(results):
        table.add_row(name, *(text.split(" ")[0] for text in cells))
    console.print(table)
    console.print(f"page: {page}", soft_wrap=True)
