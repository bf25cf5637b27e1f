"""`fedrean study`: comparisons that take longer than a run. Heavy imports happen inside."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from simulations.grid_commands import epsilon, levers, linkage

if TYPE_CHECKING:
    from collections.abc import Callable

    from common.config import Settings
    from simulations.studies.search import Budget

study = typer.Typer(no_args_is_help=True, help="Compare methods on one bench, or budgets.")
study.command()(epsilon)
study.command()(levers)
study.command()(linkage)

Overrides = Annotated[list[str] | None, typer.Argument(
    help="Hydra overrides of the pooled run whose networks judge, such as profile=small "
         "hospitals=[mitdb/hospital.yaml].")]
Steps = Annotated[int, typer.Option(help="Optimizer steps of a trial; 0: a third of --fit-steps.")]
FitSteps = Annotated[int, typer.Option(
    help="Optimizer steps of the fit with the settings found; 0: as many as the run trains its own "
         "REAN.")]
RunDir = Annotated[Path | None, typer.Option(
    help="Folder of the study; default studies/<date-time>. An existing one goes on.")]
DataDir = Annotated[Path, typer.Option(help="Where prepared windows are kept.")]


@study.command()
def anonymizers(
    overrides: Overrides = None,
    methods: Annotated[str, typer.Option(help="Names with commas; default: all.")] = "",
    trials: Annotated[int, typer.Option(help="Settings that the search tries, the same number "
                                             "for every method; its defaults come first.")] = 10,
    minutes: Annotated[float, typer.Option(help="After which a method's search begins no further "
                                                "trial; its defaults are always tried; 0: no "
                                                "limit.")] = 0.0,
    steps: Steps = 0,
    fit_steps: FitSteps = 0,
    run_dir: RunDir = None,
    data_dir: DataDir = Path("data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json.")] = False,
) -> None:
    """Fit, release and attack with every anonymizer: same windows, networks and budget.

    The first call trains the pooled networks of a run. Interrupted, the same command with the
    same --run-dir goes on: finished methods and trials are kept.
    """
    from simulations.studies.anonymizers import study as run
    from simulations.studies.page import write_page
    from simulations.studies.releases import METHODS
    from simulations.studies.tables import LEAKAGE, UTILITY, rows, short

    console = Console(stderr=as_json)
    folder, settings = _begin(overrides or [], run_dir)
    chosen = [name for name in methods.split(",") if name] or list(METHODS)
    results = run(folder.resolve(), settings, data_dir.resolve(), chosen,
                  _budget(settings, trials, minutes, steps, fit_steps), clock(console))
    page = write_page(folder, results)
    if as_json:
        print(json.dumps(results, indent=1))
        return
    for on, n in results["sets"].items():
        for what, columns in (("leakage", LEAKAGE), ("utility: AUROC by three networks", UTILITY)):
            table = Table(title=f"{on}, {n} windows: {what}", box=box.SIMPLE_HEAD,
                          padding=(0, 1, 0, 0), show_edge=False)
            for title in columns.values():
                table.add_column(title, justify="right" if title else "left", no_wrap=True)
            for row in rows(results, on):
                table.add_row(*short(row, columns))
            console.print(table)
    for line in results["warnings"]:
        console.print(f"Warning: {line}", highlight=False)
    console.print(f"page: {page}", soft_wrap=True)


@study.command()
def orthogonality(
    overrides: Annotated[list[str] | None, typer.Argument(
        help="Hydra overrides of the pooled run whose networks are measured.")] = None,
    windows: Annotated[int, typer.Option(help="Test windows to measure on, or all that have a "
                                              "diagnosis where they are fewer.")] = 4000,
    run_dir: Annotated[Path | None, typer.Option(
        help="Folder of the study or of a pooled run; default studies/<date-time>. An existing "
             "one goes on.")] = None,
    data_dir: DataDir = Path("data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print orthogonality.json.")] = False,
) -> None:
    """Measure whether privacy and diagnosis pull in different directions, and if it matters.

    Angles between the gradients of the diagnosis and of attackers of four architectures, cosines
    in the anonymizer's parameters, and the control: equally long steps along the privacy, the
    utility and random directions. An angle near 90 degrees proves little: random ones are too.

    The first call trains the pooled networks of a run; --run-dir takes those of an existing one,
    such as that of `fedrean study anonymizers`, and an interrupted call goes on from there.
    """
    from simulations.studies.orthogonality import study as run
    from simulations.studies.orthogonality_page import terminal, write_page

    console = Console(stderr=as_json)
    folder, settings = _begin(overrides or [], run_dir)
    results = run(folder.resolve(), settings, data_dir.resolve(), windows, clock(console))
    page = write_page(folder, results)
    if as_json:
        print(json.dumps(results, indent=1))
        return
    for title, note, header, rows in terminal(results):
        table = Table(*header, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for row in rows:
            table.add_row(*row)
        console.print(title, highlight=False)
        console.print(table)
        console.print(f"{note}\n", highlight=False)
    console.print(f"page: {page}", soft_wrap=True)


@study.command()
def rean(
    overrides: Overrides = None,
    bounds: Annotated[str, typer.Option(help="Amplitude bounds to try, with commas.")]
    = ".02,.04,.08,.16",
    trials: Annotated[int, typer.Option(help="Loss weights that the search tries, for each "
                                             "target.")] = 20,
    minutes: Annotated[float, typer.Option(help="After which a search begins no further trial; "
                                                "0: no limit.")] = 0.0,
    steps: Steps = 0,
    fit_steps: FitSteps = 0,
    run_dir: RunDir = None,
    data_dir: DataDir = Path("data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print rean.json.")] = False,
) -> None:
    """Choose REAN's bound and weights, take its loss apart, compare what hides an attribute.

    The first call trains the pooled networks of a run. Interrupted, the same command with the
    same --run-dir goes on: finished fits and trials are kept.
    """
    from simulations.studies.rean import check_bounds
    from simulations.studies.rean import study as run
    from simulations.studies.rean_page import overrides as pasted
    from simulations.studies.rean_page import sheets, verdict, write_page

    console = Console(stderr=as_json)
    tried = check_bounds(bounds)
    folder, settings = _begin(overrides or [], run_dir)
    budget = _budget(settings, trials, minutes, steps, fit_steps)
    results = run(folder.resolve(), settings, data_dir.resolve(), tried, budget,
                  clock(console))
    page = write_page(folder, results)
    if as_json:
        print(json.dumps(results, indent=1))
        return
    for sheet in sheets(results).values():
        table = Table(title=sheet.title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0),
                      show_edge=False)
        for title in sheet.header:
            table.add_column(title, justify="right" if title else "left")
        for row in sheet.rows:
            table.add_row(row[0], *(text.split(" ")[0] for text in row[1:]))
        console.print(table)
    console.print(verdict(results))
    for text in pasted(results).values():
        console.print(text, soft_wrap=True, highlight=False)
    console.print(f"page: {page}", soft_wrap=True)


def _begin(words: list[str], run_dir: Path | None) -> tuple[Path, Settings]:
    """The study's folder, new or existing, and the settings of its pooled run.

    Raises:
        InputError: the folder holds a study of other settings than the overrides ask for.
    """
    from common.errors import InputError
    from server.overrides import compose_settings
    from server.run_directory import create_run, open_run

    folder = run_dir or Path(f"studies/{time.strftime('%Y%m%d-%H%M%S')}")
    new = not (folder / "config.yaml").exists()
    asked = compose_settings(["training=pooled", *words]) if new or words else None
    if new and asked:
        create_run(folder, asked)
    logging.getLogger("flwr").setLevel(logging.ERROR)  # Flower, imported by now, sets its own
    settings = open_run(folder)
    if asked and asked != settings:
        raise InputError(f"overrides are {' '.join(words)}, and {folder} holds a study of other "
                         "settings; allowed are its own, or none")
    return folder, settings


def _budget(settings: Settings, trials: int, minutes: float, steps: int, fit_steps: int) -> Budget:
    from simulations.studies.search import Budget

    return Budget(trials, minutes, steps, fit_steps, settings.anonymizer.batch, settings.seed)


def clock(console: Console) -> Callable[[str], None]:
    """Tells what is done next, and when."""
    started = time.monotonic()

    def tell(what: str) -> None:
        console.print(f"{time.monotonic() - started:7.1f} s  {what}", highlight=False, markup=False,
                      soft_wrap=True)

    return tell
