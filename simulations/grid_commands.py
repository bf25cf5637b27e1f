"""`fedrean study epsilon`, `levers` and `linkage`: grids of runs, and of populations."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

RunDir = Annotated[Path | None, typer.Option(
    help="Folder of the study; default studies/<date-time>. An existing one goes on.")]
DataDir = Annotated[Path, typer.Option(help="Where prepared windows are kept.")]
Workers = Annotated[int, typer.Option(help="Runs at a time; each trains with `threads` threads.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print results.json.")]


def epsilon(
    overrides: Annotated[list[str] | None, typer.Argument(
        help="Hydra overrides; values with commas are swept. Default: privacy=patient "
             "privacy.epsilon=1,2,4,8,inf.")] = None,
    workers: Workers = 1, run_dir: RunDir = None, data_dir: DataDir = Path("data"),
    as_json: AsJson = False,
) -> None:
    """Run a grid over epsilon and whatever else is swept; diagnosis and leakage of each run.

    \b
    study epsilon                                    one line on the embedded cohort
    study epsilon privacy=patient,window             two lines
    study epsilon privacy.trust=hospital,aggregate   where the noise is
    study epsilon training=federated,local seed=0,1  four lines' points, two seeds each

    Every cell is a run of its own below cells/, kept and resumable; one that fails loses no other,
    and the exit code is 1. `inf` is the same run without noise. Combinations that make no sense
    are refused by name.
    """
    from simulations.studies.epsilon import study
    from simulations.studies.epsilon_page import header, table, write_page

    console, folder = Console(stderr=as_json), _folder(run_dir)
    results = study(folder, overrides or [], data_dir.resolve(), workers, _clock(console))
    _finish(console, results, header(), table(results), write_page(folder, results), as_json)


def levers(
    overrides: Annotated[list[str] | None, typer.Argument(
        help="Hydra overrides of every variant, such as privacy.epsilon=8 privacy.delta=1e-4 "
             "cohort.patients=500 cohort.shift=0.5.")] = None,
    public: Annotated[Path | None, typer.Option(
        help="Run whose weights cost nobody privacy; default: one on synthetic people is trained "
             "first.")] = None,
    public_patients: Annotated[int, typer.Option(help="Synthetic people of that run.")] = 200,
    workers: Workers = 1, run_dir: RunDir = None, data_dir: DataDir = Path("data"),
    as_json: AsJson = False,
) -> None:
    """Show what makes a patient's budget useful, one lever after the other.

    Public weights, few trained layers, noise on the sum over hospitals, sampling rate, windows,
    clip and steps; beside the row "public weights only", at which nothing was spent. What a row
    gains over that one is what the patients' data bought.
    """
    from simulations.studies.levers import public_run, study
    from simulations.studies.levers_page import header, table, write_page

    console, folder = Console(stderr=as_json), _folder(run_dir)
    data, words, tell = data_dir.resolve(), overrides or [], _clock(console)
    start = str(public.resolve()) if public else public_run(folder, words, public_patients, data,
                                                            tell)
    results = study(folder, words, start, data, workers, tell)
    _finish(console, results, header(), table(results), write_page(folder, results), as_json)


def linkage(
    largest: Annotated[int, typer.Option(help="People of the largest population or reference, up "
                                              "to 250 million.")] = 640_000,
    seeds: Annotated[int, typer.Option(help="Populations of each kind; figures are their "
                                            "means.")] = 1,
    run_dir: RunDir = None, as_json: AsJson = False,
) -> None:
    """Repeat the linkage risk paper's tables and figures on synthetic people.

    \b
    study linkage                        what a minute allows
    study linkage --largest 25000000     the first and the third table
    study linkage --largest 250000000    everything; 50 million people times 4 need 12 GB

    A finished cell is kept: the same command with the same --run-dir goes on, also to more.
    """
    from simulations.studies.linkage import study
    from simulations.studies.linkage_page import write_page
    from simulations.studies.linkage_tables import tables

    console, folder = Console(stderr=as_json), _folder(run_dir)
    results = study(folder, largest, seeds, _clock(console))
    page = write_page(folder, results)
    if as_json:
        print(json.dumps(results, indent=1))
        return
    for title, (header, rows) in tables(results).items():
        if rows:  # differences stand on the page, where there is room for them
            shown = [i for i, text in enumerate(header) if text != "diff %" or len(header) < 9]
            table = Table(*(header[i] for i in shown), title=f"{title} ({results['of']})",
                          box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
            for row in rows:
                table.add_row(*(row[i] for i in shown))
            console.print(table)
    console.print(f"page: {page}", soft_wrap=True)


def _folder(run_dir: Path | None) -> Path:
    folder = (run_dir or Path(f"studies/{time.strftime('%Y%m%d-%H%M%S')}")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _finish(console: Console, results: Mapping[str, Any], header: Sequence[str],
            rows: Sequence[Sequence[str]], page: Path, as_json: bool) -> None:
    """Print the table without intervals; exit 1 unless every cell was done."""
    if as_json:
        print(json.dumps(results, indent=1, default=str))
    else:
        table = Table(*header, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for row in rows:
            table.add_row(row[0], *(text.split(" ")[0] if text[:1] in ".-0123456789" else text
                                    for text in row[1:]))
        console.print(table)
        console.print(f"page: {page}", soft_wrap=True)
    if results["failed"] or results["refused"]:
        console.print(f"{results['failed']} cells failed, {len(results['refused'])} were refused",
                      highlight=False)
        raise typer.Exit(1)


def _clock(console: Console) -> Callable[[str], None]:
    """Tells what is done next, and when."""
    from simulations.study_commands import clock

    return clock(console)
