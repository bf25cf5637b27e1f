"""Privacy budgets against what is left of diagnosis and what an attacker still finds.

The grid is whole runs; a line of the figure is everything but epsilon and seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common.config import Settings
from common.errors import InputError
from common.results import write_json
from simulations.consortium import prepare_sites
from simulations.studies.figures_of_cells import figures, spent, table
from simulations.studies.grid import Cell, Progress, plan, run_cells, sweep

DEFAULTS = {"privacy": "patient", "privacy.epsilon": "1,2,4,8,inf"}
_DATA = ("hospitals", "cohort", "seed", "profile", "reserved", "leads", "training", "labels")


def study(folder: Path, words: Sequence[str], data: Path, workers: int,
          progress: Progress) -> dict[str, Any]:
    """Run the grid and gather its figures; results.json and cells.csv in `folder`.

    Args:
        folder: of the study; an existing one goes on.
        words: overrides in Hydra's sweep grammar; those of DEFAULTS that are not given are added.
        data: where cohorts and windows are kept.
        workers: runs at a time.
        progress: told what is done next.

    Raises:
        InputError: no combination makes sense, or the folder holds other runs.
    """
    given = {word.split("=", 1)[0] for word in words}
    jobs = sweep([*(f"{key}={value}" for key, value in DEFAULTS.items() if key not in given),
                  *words])
    varying = varies(jobs)
    cells, refused = plan(folder, {_named(words, varying): words for words in jobs})
    for line in refused:
        progress(f"refused: {line}")
    prepare_once([cell.settings for cell in cells], data, progress)
    failed = run_cells(cells, data, workers, progress)
    rows = [row_of(cell, varying) for cell in cells]
    results = {"rows": rows, "refused": refused, "failed": len(failed),
               "command": f"fedrean study epsilon {' '.join(words)}".strip()}
    write_json(folder / "results.json", results)
    (folder / "cells.csv").write_text(table(rows))
    return results


def prepare_once(settings: Sequence[Settings], data: Path, progress: Progress) -> None:
    """Make each cohort and its windows once, before processes would make them at the same time."""
    done = set()
    for one in settings:
        tree = one.as_dict()
        key = repr([tree[name] for name in _DATA])
        if key not in done:
            done.add(key)
            progress(f"preparing {'the embedded cohort' if not one.hospitals else 'the windows'}")
            prepare_sites(one, data, lambda stage, number, total: None)


def varies(jobs: Sequence[Sequence[str]]) -> list[str]:
    """Keys that differ between jobs, and epsilon in any case."""
    values: dict[str, set[str]] = {}
    for words in jobs:
        for word in words:
            key, _, value = word.partition("=")
            values.setdefault(key, set()).add(value)
    return [key for key, found in values.items() if len(found) > 1 or key == "privacy.epsilon"]


def _named(words: Sequence[str], varying: Sequence[str]) -> str:
    """What sets a cell apart."""
    return ",".join(word for word in words if word.split("=", 1)[0] in varying)


def row_of(cell: Cell, varying: Sequence[str]) -> dict[str, Any]:
    """What varied, what was spent and found; `problem` where the run failed."""
    words = dict(word.split("=", 1) for word in cell.words)
    row: dict[str, Any] = {"varies": {key: words.get(key, "") for key in varying},
                           "asked": asked(cell.words)}
    if not cell.finished:
        return {**row, "problem": cell.log().splitlines()[-1] if cell.log() else "no output"}
    metrics = cell.metrics()
    return {**row, "figures": figures(metrics), "spent": spent(metrics),
            "delta": cell.settings.privacy.delta, "noise": metrics["guarantee"],
            "seconds": round(sum(metrics["timing"].values()), 1)}


def asked(words: Sequence[str]) -> float:
    """The epsilon that a cell asks for; infinity without privacy."""
    for word in words:
        if word.startswith("privacy.epsilon="):
            try:
                return float(word.split("=", 1)[1].replace(".inf", "inf"))
            except ValueError:
                raise InputError(f"{word}; allowed: numbers above 0 and inf") from None
    return math.inf


def lines(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows with figures by line of the figure: all that varies but epsilon and seed."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if "figures" in row:
            name = ", ".join(f"{key.removeprefix('privacy.')}={value}"
                             for key, value in row["varies"].items()
                             if key not in ("privacy.epsilon", "seed"))
            found.setdefault(name or "all runs", []).append(row)
    return {name: sorted(of, key=lambda row: row["asked"] if row["asked"] is not None else math.inf)
            for name, of in found.items()}
