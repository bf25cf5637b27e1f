"""fedrean's one public name: the command line. Heavy imports happen inside the commands."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent))  # the packages beside this file
# OpenMP threads that spin while they wait make a run ten times slower on a busy host.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")

from common.errors import FedreanError, InputError  # noqa: E402
from simulations.audit_command import audit  # noqa: E402
from simulations.budget_commands import budget  # noqa: E402
from simulations.data_commands import data  # noqa: E402
from simulations.link_commands import link  # noqa: E402
from simulations.study_commands import study  # noqa: E402

if TYPE_CHECKING:
    from common.config import Settings

# Plain help; else typer 0.20, the last that flwr allows, prints the brackets of [required] escaped.
typer.core.HAS_RICH = False
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  rich_markup_mode=None,  # brackets of overrides are not markup
                  help="Train an ECG anonymizer across hospitals, then attack what it releases.")
app.add_typer(data, name="data")
app.add_typer(study, name="study")
app.add_typer(budget, name="budget")
app.add_typer(link, name="link")
app.command()(audit)
console = Console()


@app.command()
def simulate(
    overrides: Annotated[list[str] | None, typer.Argument(
        help="Hydra overrides such as privacy=window privacy.epsilon=4 training=pooled "
             "profile=small hospitals=[a.yaml,b.yaml]; or resume=RUN alone.")] = None,
    run_dir: Annotated[str, typer.Option(help="Run directory; default runs/<date-time>.")] = "",
    data_dir: Annotated[Path, typer.Option(help="Where the embedded cohort and prepared windows "
                                                "are kept.")] = Path("data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print metrics.json.")] = False,
) -> None:
    """Simulate a consortium on this host: train, release, attack, report.

    Without arguments four synthetic hospitals train on the embedded cohort. Settings are Hydra
    overrides; simulations/conf holds the defaults, and a wrong one is answered with what is
    allowed.

    \b
    privacy=window privacy.epsilon=4    DP-SGD per window, over the whole run
    training=pooled                     or local; federated is the default
    profile=small                       or paper; tiny is the default
    'hospitals=[a.yaml,b.yaml]'         your own records
    cohort.patients=20 engine=ray       a larger cohort, in several processes
    rean.bound=0.05 seed=1              any single setting
    resume=runs/20261130-101500         after Ctrl-C; without privacy the same numbers
    """
    from simulations.consortium import run
    from simulations.progress import Bars

    logging.getLogger("flwr").setLevel(logging.ERROR)  # Flower sets its own level on import
    folder, settings = _begin(overrides or [], run_dir)
    try:
        with Bars(settings, console if not as_json else Console(stderr=True), folder) as bars:
            run(folder.resolve(), settings, data_dir.resolve(), bars)
    except KeyboardInterrupt:
        console.print(f"interrupted; go on with: fedrean simulate resume={folder}")
        sys.stdout.flush()
        if settings.engine == "ray":
            os._exit(130)  # Flower's threads may wait for ever for a worker that Ctrl-C ended
        raise typer.Exit(130) from None
    if as_json:
        print((folder / "metrics.json").read_text())
    else:
        show(json.loads((folder / "metrics.json").read_text()))
        console.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def _begin(words: list[str], run_dir: str) -> tuple[Path, Settings]:
    """The run directory, new or resumed, and its settings."""
    from server.overrides import compose_settings
    from server.run_directory import create_run, open_run

    resumed = [word.removeprefix("resume=") for word in words if word.startswith("resume=")]
    if not resumed:
        settings = compose_settings(words)
        folder = Path(run_dir or f"runs/{time.strftime('%Y%m%d-%H%M%S')}")
        create_run(folder, settings)
        return folder, settings
    if len(words) > 1:
        raise InputError(f"resume={resumed[0]} takes the settings of that run; "
                         f"{len(words) - 1} more overrides were given, 0 are allowed")
    folder = Path(resumed[0])
    return folder, open_run(folder)


@app.command()
def report(folder: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
           as_json: Annotated[bool, typer.Option("--json", help="Print metrics.json.")] = False,
           ) -> None:
    """Print a finished run's table and write its report.html again."""
    from common.results import SCHEMA_VERSION, read_json
    from server.report.page import write_report

    path = folder / "metrics.json"
    if not os.path.isfile(path):
        raise InputError(f"RUN is {str(folder)!r}, which holds no metrics.json; allowed: a "
                         f"finished run (an interrupted one: fedrean simulate resume={folder})")
    metrics = read_json(path)
    schema = metrics.get("schema_version") if isinstance(metrics, dict) else None
    if schema != SCHEMA_VERSION:
        raise InputError(f"RUN is {str(folder)!r}, whose metrics.json has schema_version "
                         f"{schema!r}; allowed: {SCHEMA_VERSION}")
    settings = metrics["config"]
    write_report(folder, examples=not settings["hospitals"] or settings["audit"]["examples"])
    if as_json:
        print(path.read_text())
    else:
        show(metrics)
        console.print(f"report: {folder / 'report.html'}", soft_wrap=True)


def show(metrics: dict[str, Any]) -> None:
    """Print the result table, the accounts and the warnings."""
    from server.report.table import HEADER, accounts, cell, result_rows

    table = Table(title="What an attacker can do, and what is left of the diagnosis",
                  caption="second line: 95 % interval over patients", box=box.HORIZONTALS,
                  show_edge=False, padding=0, show_lines=True)
    for title in HEADER:
        wide = {"": 12, "PRD %": 5, "AUROC frozen": 10, "AUROC indep.": 10}.get(title, 9)
        table.add_column(title, width=wide, overflow="fold")  # 80 columns in all
    for name, leaves in result_rows(metrics):
        cells = [cell(leaf, "\n") if leaf else "" for leaf in leaves]
        table.add_row(name, *cells[:-1], cells[-1].split("\n")[0])
    console.print(table)
    for line in [*accounts(metrics), *metrics["warnings"], *metrics["skipped"]]:
        console.print(line, soft_wrap=True, highlight=False)


def main() -> None:
    """Entry point: exit 0 done, 1 failed, 2 bad input, 130 interrupted."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    try:
        app()
    except InputError as error:
        print(f"fedrean: {error}", file=sys.stderr)
        sys.exit(2)
    except FedreanError as error:
        print(f"fedrean: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
