"""A grid of whole runs, in Hydra's sweep grammar: a folder and a process for each cell.

A cell that fails, or is killed for its memory, loses no other; a finished one is not run again, and
an interrupted one goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from common.config import Settings
from common.errors import InputError
from common.results import read_json
from server.overrides import compose_settings
from server.run_directory import create_run, open_run

Progress = Callable[[str], None]
_FEDREAN = Path(__file__).resolve().parents[2] / "fedrean.py"
_WITH_NOISE = ("epsilon", "delta", "clip", "cap", "trust", "missing")  # nothing without it
_TAIL = 12  # lines of a failed cell's log that are shown


@dataclass(frozen=True)
class Cell:
    """One run of the grid.

    Args:
        name: what sets it apart.
        words: its overrides.
        settings: what they compose to.
        folder: of the run.
    """

    name: str
    words: tuple[str, ...]
    settings: Settings
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether its figures are there."""
        return (self.folder / "metrics.json").exists()

    def metrics(self) -> dict[str, Any]:
        """What it found."""
        found: dict[str, Any] = read_json(self.folder / "metrics.json")
        return found

    def log(self) -> str:
        """The end of what it printed."""
        file = self.folder / "log.txt"
        lines = file.read_text(errors="replace").splitlines() if file.exists() else []
        return "\n".join(lines[-_TAIL:])


def sweep(words: Sequence[str]) -> list[list[str]]:
    """Every combination of overrides such as `privacy.epsilon=1,2,inf`.

    Raises:
        InputError: Hydra does not understand them.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(words))
        return [jobs for batch in BasicSweeper.split_arguments(parsed, None) for jobs in batch]
    except HydraException as error:
        raise InputError(f"overrides are {' '.join(words)}: {' '.join(str(error).split())}") \
            from None


def without_noise(words: Sequence[str]) -> list[str]:
    """The same run at an epsilon of infinity: no noise, no clipping, what else stays as it is."""
    if not any(word in ("privacy.epsilon=inf", "privacy.epsilon=.inf") for word in words):
        return list(words)
    kept = [word for word in words if not re.match(
        rf"\+*privacy(\.({'|'.join(_WITH_NOISE)}))?=", word)]
    patient = "privacy=patient" in words  # there identity is an embedding
    return ["privacy=none", *(["identity_by=embedding"] if patient else []), *kept]


def plan(folder: Path, jobs: Mapping[str, Sequence[str]]) -> tuple[list[Cell], list[str]]:
    """Cells of the grid, each different one once, and a line for each that makes no sense.

    A run of the same settings that the study made before is taken, whatever it was called then.

    Args:
        folder: of the study.
        jobs: overrides of each cell, by its name.

    Raises:
        InputError: none makes sense.
    """
    cells: dict[str, Cell] = {}
    refused = []
    made = {json.dumps(open_run(file.parent).as_dict()): file.parent
            for file in sorted((folder / "cells").glob("*/config.yaml"))}
    for name, words in jobs.items():
        try:
            settings = compose_settings(without_noise(words))
        except InputError as error:
            refused.append(f"{name}: {error}")
            continue
        key = json.dumps(settings.as_dict())
        own = folder / "cells" / slug(name)
        if own in made.values():  # of other settings
            own = own.with_name(f"{own.name}-{hashlib.sha256(key.encode()).hexdigest()[:6]}")
        cells.setdefault(key, Cell(name, tuple(words), settings, made.get(key, own)))
    if not cells:
        raise InputError("; ".join(refused) or "the grid has 0 cells; at least 1 is needed")
    return list(cells.values()), refused


def slug(name: str) -> str:
    """A folder for a name: readable, and no two names share one."""
    plain = re.sub(r"[^A-Za-z0-9=._,+-]+", "_", name)
    return plain if plain == name and len(name) <= 80 else \
        f"{plain[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def run_cells(cells: Sequence[Cell], data: Path, workers: int, progress: Progress) -> list[Cell]:
    """Run what is not finished, `workers` at a time; the cells that failed.

    Args:
        cells: of the grid.
        data: where cohorts and windows are kept, which cells of equal data share.
        workers: processes, each of which trains with its run's threads.
        progress: told of each cell that ends.

    Raises:
        KeyboardInterrupt: with all processes ended; the cells go on at the next call.
    """
    waiting = [cell for cell in cells if not cell.finished]
    total, failed, started = len(waiting), [], time.monotonic()
    running: dict[subprocess.Popen[bytes], Cell] = {}
    if len(cells) > total:
        progress(f"{len(cells) - total} of {len(cells)} cells were finished before")
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                cell = waiting.pop(0)
                progress(f"cell {cell.name}")
                running[_start(cell, data)] = cell
            time.sleep(0.2)
            for process in [one for one in running if one.poll() is not None]:
                cell = running.pop(process)
                if not cell.finished:
                    failed.append(cell)
                    progress(f"failed: {cell.name}\n{cell.log()}")
                done = total - len(waiting) - len(running)
                left = math.ceil((time.monotonic() - started) / done * (total - done) / 60)
                progress(f"{done} of {total} cells ended, about {left} min left")
    except BaseException:
        _end(running)
        raise
    return failed


def _end(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """Interrupt the processes, and kill what does not end within a minute."""
    for process in processes:
        os.killpg(process.pid, signal.SIGINT)
    for process in processes:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(cell: Cell, data: Path) -> subprocess.Popen[bytes]:
    """A process of its own group, so that Ctrl-C is passed on once, and by us."""
    if not (cell.folder / "config.yaml").exists():
        create_run(cell.folder, cell.settings)
    with (cell.folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, str(_FEDREAN), "simulate", f"resume={cell.folder}",
             "--data-dir", str(data)], stdout=log, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_hear_interruptions)


def _hear_interruptions() -> None:
    """A study that a script started in its background ignores SIGINT, and its children would."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
