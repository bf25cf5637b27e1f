"""`fedrean study anonymizers`: every method on one bench, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common.audits.waves import waves_agree
from common.config import Settings
from common.errors import InputError
from common.results import read_json, write_json
from server.learned import not_learned
from simulations.studies.aggregates import aggregates_row
from simulations.studies.bench import Bench, Progress, build_bench
from simulations.studies.judging import distances, judge, paired, retrained
from simulations.studies.releases import METHODS, make_release
from simulations.studies.search import Budget

BEATS_ON = "shared 500"  # a sample of it is delineated before and after


def study(folder: Path, settings: Settings, data: Path, methods: Sequence[str], budget: Budget,
          progress: Progress) -> dict[str, Any]:
    """Fit, release and judge every method; results.json, which an interrupted call goes on from.

    Args:
        folder: of the study; what it holds already is not made again.
        settings: of the pooled run whose networks are the training signal.
        data: where prepared windows are kept.
        methods: of `METHODS`.
        budget: of the search that each method's settings come from.
        progress: told what is done next.
    """
    for name in methods:
        if name not in METHODS:
            raise InputError(f"method is {name!r}; allowed is one of {', '.join(METHODS)}")
    bench = build_bench(folder, settings, data, progress)
    budget = budget.filled(settings.anonymizer, len(bench.rows("train")))
    clean = judge(bench, bench.bundles.clean)
    rows = {}
    for name in methods:
        file = folder / "methods" / name / "row.json"
        if not file.exists():
            write_json(file, _method(bench, name, clean, budget, data, progress))
        rows[name] = read_json(file)
    results = {"clean": clean, "methods": rows, "warnings": _warnings(clean),
               "config": settings.as_dict(),
               "budget": {"trials": budget.trials, "minutes": budget.minutes,
                          "steps": budget.steps, "fit_steps": budget.fit_steps},
               "sets": {name: len(chosen) for name, chosen in bench.sets.items()}}
    write_json(folder / "results.json", results)
    found: dict[str, Any] = read_json(folder / "results.json")
    return found


def _method(bench: Bench, name: str, clean: dict[str, Any], budget: Budget, data: Path,
            progress: Progress) -> dict[str, Any]:
    """Release by one method, and judge the release."""
    if name == "aggregates":
        return aggregates_row(bench, progress)
    released, how = make_release(bench, name, budget, data, progress)
    progress(f"{name}: judging")
    row = judge(bench, released)
    row["retrained"] = retrained(bench, released, bench.folder / "methods" / name)
    for which, rows in bench.sets.items():
        row[which] |= distances(clean[which], row[which])
        row[which]["auroc_minus_clean"] = paired(bench, released, rows)
    rows = bench.sets[BEATS_ON]
    row["beats"] = waves_agree(bench.bundles.clean[rows], released[rows], bench.data.rate,
                               bench.bundles.patient[rows], beats=bench.data.beats.select(rows))
    return {**row, **how}


def _warnings(clean: dict[str, Any]) -> list[str]:
    """Networks that did not learn, by the largest set: small ones are too few to tell."""
    row = clean["20,000"]
    judges = {name: tree["macro_auroc"] for name, tree in row["independent"].items()}
    return not_learned({"the auditor's attacker": row, "the training signal":
                        row["training_signal"]},
                       {"frozen": row["frozen"]["macro_auroc"], **judges})
