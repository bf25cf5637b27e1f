"""What makes a patient's budget useful: each lever alone, beside the public weights that cost none.

Whatever a private run does not gain over "public weights only" its patients' data did not buy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.utility import gain
from common.config import Settings
from common.protocol import STAGES
from common.results import write_json
from common.training import Indices
from server.bundles import Bundles, load_bundles
from server.overrides import compose_settings
from simulations.studies.epsilon import prepare_once
from simulations.studies.figures_of_cells import figures, spent, table
from simulations.studies.grid import Cell, Progress, plan, run_cells

PUBLIC, OPEN, BEST = "public weights only", "no privacy", "norms, noise on the sum"
_SEED = 1  # added to the run's own: the public cohort has nobody of the study's


def variants(public: str, settings: Settings) -> dict[str, tuple[list[str], list[str]]]:
    """Overrides of each row, before and after those of the study, in the order of the table.

    Args:
        public: run whose weights cost nobody privacy.
        settings: of a private run of the study, whose single values the last rows change.
    """
    start, patient = [f"start={public}"], ["privacy=patient"]
    bare = ["privacy=none", "identity_by=embedding", *start]
    norms = [*patient, *start, "trainable=norms"]
    summed = [*norms, "privacy.trust=aggregate"]
    privacy = settings.privacy
    epochs = {stage: settings.stage(stage).epochs for stage in STAGES}
    # An override of the study's own comes later, so what makes a row comes after it.
    rows = {
        PUBLIC: ([*bare, "trainable=none"], []),
        OPEN: (bare, []),
        "all layers, from new weights": (patient, []),
        "all layers, from public weights": ([*patient, *start], []),
        "norms, from public weights": (norms, []),
        "last layer, from public weights": ([*patient, *start, "trainable=last"], []),
        BEST: (summed, []),
        f"{BEST}, q / 2": (summed, [f"privacy.q={privacy.q / 2:g}"]),
        f"{BEST}, W / 2": (summed, [f"privacy.windows={max(1, privacy.windows // 2)}"]),
        f"{BEST}, C / 2": (summed, [f"privacy.clip={privacy.clip / 2:g}"]),
        f"{BEST}, C x 2": (summed, [f"privacy.clip={privacy.clip * 2:g}"]),
        f"{BEST}, steps x 2": (summed, [f"{stage}.epochs={2 * n}" for stage, n in epochs.items()]),
    }
    return rows


def public_run(folder: Path, words: Sequence[str], patients: int, data: Path,
               progress: Progress) -> str:
    """A run on the synthetic public cohort, pooled, as nobody's privacy is at stake; its folder.

    Args:
        folder: of the study.
        words: overrides of the study, of which the cohort and privacy are replaced.
        patients: of the cohort, in all.
    """
    kept = [word for word in words if word.split("=")[0].split(".")[0] not in (
        "hospitals", "cohort", "privacy", "seed", "training")]
    seed = next((int(word.split("=")[1]) for word in words if word.startswith("seed=")), 0)
    job = [*kept, "privacy=none", "training=pooled", "identity_by=embedding", "hospitals=[]",
           f"cohort.patients={max(2, patients // 4)}", "cohort.shift=0", f"seed={seed + _SEED}",
           "audit.attacks=[]"]
    cells, _ = plan(folder, {"public": job})
    prepare_once([cells[0].settings], data, progress)
    if run_cells(cells, data, 1, progress):
        raise RuntimeError(f"the public run failed: {cells[0].log()}")
    return str(cells[0].folder)


def study(folder: Path, words: Sequence[str], public: str, data: Path, workers: int,
          progress: Progress) -> dict[str, Any]:
    """Run every variant and compare it with the public weights; results.json, cells.csv.

    Args:
        folder: of the study; an existing one goes on.
        words: overrides of all variants, such as hospitals, epsilon and delta.
        public: run whose weights cost nobody privacy.
        data: where cohorts and windows are kept.
        workers: runs at a time.
        progress: told what is done next.
    """
    named = variants(public, compose_settings(["privacy=patient", *words]))
    jobs = {name: [*first, *words, *last] for name, (first, last) in named.items()}
    cells, refused = plan(folder, jobs)
    for line in refused:
        progress(f"refused: {line}")
    prepare_once([cell.settings for cell in cells], data, progress)
    failed = run_cells(cells, data, workers, progress)
    public_cell = next((cell for cell in cells if cell.name == PUBLIC), None)
    rows = [_row(cell, public_cell) for cell in cells]
    results = {"rows": rows, "refused": refused, "failed": len(failed),
               "command": f"fedrean study levers {' '.join(words)}"}
    write_json(folder / "results.json", results)
    (folder / "cells.csv").write_text(table(rows))
    return results


def _row(cell: Cell, public: Cell | None) -> dict[str, Any]:
    """Figures of a variant, and what it gained over the public weights on clean windows."""
    row: dict[str, Any] = {"varies": {"variant": cell.name}, "words": list(cell.words)}
    if not cell.finished:
        return {**row, "problem": cell.log().splitlines()[-1] if cell.log() else "no output"}
    metrics = cell.metrics()
    row |= {"figures": figures(metrics), "spent": spent(metrics),
            "seconds": round(sum(metrics["timing"].values()), 1)}
    if public and public.finished and public is not cell:
        row["gain"] = _gain(load_bundles(public.folder / "bundles"),
                            load_bundles(cell.folder / "bundles"))
    return row


def _gain(before: Bundles, after: Bundles) -> Any:
    """Macro-AUROC of the diagnosis network after minus before, on the same clean test windows."""
    rows: Indices = after.rows("test")
    rows = rows[~after.reserved[rows]]
    scores = [_scores(bundles)[rows] for bundles in (before, after)]
    return gain([(scores[0], scores[1])], after.allowed[rows], after.patient[rows])


def _scores(bundles: Bundles) -> NDArray[np.float64]:
    return np.concatenate(bundles.frozen["diagnosis-clean"]).astype(np.float64)
