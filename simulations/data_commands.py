"""`fedrean data`: download, prepare, describe and synthesize. Heavy imports happen inside."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from common.errors import InputError

if TYPE_CHECKING:
    from common.ecg.windows import Store

data = typer.Typer(no_args_is_help=True, help="Fetch, prepare or look at a hospital's records, or "
                                              "make synthetic ones.")
Paths = Annotated[list[Path], typer.Argument(
    metavar="HOSPITAL...", help="Hospital files, or folders that hold a hospital.yaml.")]
DataDir = Annotated[Path, typer.Option(help="Where prepared windows are kept.")]
Rate = Annotated[int, typer.Option(help="Sampling rate of windows, Hz; the paper's is 250, "
                                        "profile=small has 125, profile=tiny 100.")]
Seconds = Annotated[float, typer.Option(help="Length of a window, s.")]
Reserved = Annotated[float, typer.Option(help="Share of patients that no training sees.")]
Seed = Annotated[int, typer.Option(help="Draws the reserved patients and the sets.")]
Workers = Annotated[int, typer.Option(help="Processes; 0: one a processor core.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@data.command()
def download(names: Annotated[list[str], typer.Argument(
                 metavar="NAME...", help="mitdb, ltdb, incartdb, shdb-af, svdb or ecgiddb.")],
             to: Annotated[Path, typer.Option(help="Folder that gets one folder a database.")]
             = Path("data"),
             mirror: Annotated[str, typer.Option(help="Server that lays files out as PhysioNet "
                                                      "does.")] = "https://physionet.org") -> None:
    """Fetch databases from PhysioNet, check every file, and write their hospital files.

    What is there and right is not fetched again: after a cut, run the same command.
    """
    from common.ecg.databases import database_of
    from common.ecg.download import download as fetch

    console = Console()
    databases = [database_of(name) for name in names]  # a wrong name stops it before any work
    with Progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
                  TransferSpeedColumn(), TimeRemainingColumn(), console=console) as bars:
        task = bars.add_task("", total=None)
        for database in databases:
            file = fetch(database, to / database.slug, lambda name, done, total: bars.update(
                task, description=name, completed=done, total=total), mirror)
            console.print(f"{database.terms()}hospital file: {file}\n", soft_wrap=True,
                          highlight=False)


@data.command()
def prepare(paths: Paths, data_dir: DataDir = Path("data"), sampling_rate: Rate = 250,
            seconds: Seconds = 8.0, reserved: Reserved = 0.15, seed: Seed = 0,
            workers: Workers = 0, as_json: AsJson = False) -> None:
    """Cut hospitals' records into windows, once; a run with the same settings finds them.

    After an interruption the same command goes on with the records that are left. A changed
    record, hospital file or setting gives another store and never reads an old one.
    """
    stores = _prepare(paths, data_dir, (sampling_rate, seconds, reserved, seed), workers)
    facts = [{"name": store.info["name"], "windows": len(store.index), "store": str(store.path),
              "bytes": sum(file.stat().st_size for file in store.path.iterdir())}
             for store in stores]
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    for fact in facts:
        Console().print(f"{fact['name']}: {fact['windows']:,} windows, "
                        f"{fact['bytes'] / 1e9:.3f} GB, {fact['store']}", soft_wrap=True,
                        highlight=False)


@data.command()
def describe(paths: Paths, data_dir: DataDir = Path("data"), sampling_rate: Rate = 250,
             seconds: Seconds = 8.0, reserved: Reserved = 0.15, seed: Seed = 0,
             workers: Workers = 0, as_json: AsJson = False) -> None:
    """Print patients, sex, ages, leads, hours, windows per class, and what was left out and why.

    Several hospitals stand side by side, with their sum and what the REAN paper says of them.
    """
    from simulations.describe import describe as facts_of
    from simulations.describe import lines, table

    found = facts_of(_prepare(paths, data_dir, (sampling_rate, seconds, reserved, seed), workers),
                     seed)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    header, rows = table(found)
    drawn = Table()
    for title in header:
        drawn.add_column(title, overflow="fold", no_wrap=not title, justify="right" if title
                         else "left")
    for row in rows:
        drawn.add_row(*row)
    console = Console()
    console.print(drawn)
    for line in lines(found):
        console.print(line, soft_wrap=True, highlight=False, markup=False)


@data.command()
def synthesize(directory: Annotated[Path, typer.Argument(help="Folder to write to.")],
               patients: Annotated[int, typer.Option(help="Patients per hospital.")] = 8,
               minutes: Annotated[float, typer.Option(help="Length of a record, min.")] = 15.0,
               seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0) -> None:
    """Write the embedded cohort: four synthetic hospitals as WFDB records."""
    from common.ecg.synthetic import CohortSettings, write_consortium

    for file in write_consortium(directory, CohortSettings(patients, minutes, seed)):
        Console().print(str(file), soft_wrap=True)


def _prepare(paths: list[Path], data_dir: Path, settings: tuple[Any, ...],
             workers: int) -> list[Store]:
    """The stores of hospital files, with a bar on the terminal while they are made."""
    from common.ecg.hospital_file import load_hospital
    from common.ecg.windows import WindowSettings
    from common.ecg.windows import prepare as prepare_windows

    if workers < 0:
        raise InputError(f"workers is {workers}; allowed is 0 (one a core) or more")
    window = WindowSettings(*settings)
    hospitals = [load_hospital(p / "hospital.yaml" if p.is_dir() else p) for p in paths]
    names = [hospital.name for hospital in hospitals]
    if len(set(names)) < len(names):
        raise InputError(f"hospital names are {names}; each must be different")
    stores, console = [], Console(stderr=True)
    try:
        with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                      TimeRemainingColumn(), console=console, transient=True,
                      disable=not console.is_terminal) as bars:
            for hospital in hospitals:
                tell = partial(_tell, bars, bars.add_task(f"{hospital.name}, records"))
                stores.append(prepare_windows(hospital, data_dir / "stores", window,
                                              workers or os.cpu_count() or 1, tell))
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it was", file=sys.stderr)
        raise typer.Exit(130) from None
    return stores


def _tell(bars: Progress, task: TaskID, done: int, total: int) -> None:
    bars.update(task, completed=done, total=total)
