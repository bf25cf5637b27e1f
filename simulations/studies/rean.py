"""`fedrean study rean`: REAN's bound, loss weights, ablation and target, one after the other.

Source: REAN (arXiv:2607.06037), sections III-A (bound and weights) and IV-E (ablation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from common.anonymizers.contract import Anonymizer, Effort
from common.anonymizers.rean import ReanAnonymizer
from common.config import Rean, Settings
from common.errors import InputError
from common.results import read_json, to_plain, write_json
from common.training import Indices
from simulations.studies.bench import Bench, Progress, build_bench
from simulations.studies.judging import distances, judge
from simulations.studies.releases import make_rean, new_rean
from simulations.studies.search import Budget, search

TERMS = ("U", "P", "D", "UP", "UD", "PD", "UPD")
TARGETS = ("away", "uniform", "decoy")
BAND = 9.0  # percent; Zigel et al. (2000) call a PRD below it good or very good
TEST = "shared 500"
Row = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """The windows that one question is answered on, and what their clean version gives away."""

    name: str
    rows: Indices
    clean: Row

    @classmethod
    def of(cls, bench: Bench, name: str, rows: Indices) -> Part:
        """Judge the clean windows of a part."""
        clean = judge(replace(bench, sets={name: rows}), bench.bundles.clean)[name]
        return cls(name, rows, clean)


@dataclass(frozen=True)
class Choice:
    """A bound, and whether it meets both conditions or is only the nearest of those tried."""

    bound: float
    qualifies: bool


def excess(row: Row) -> float:
    """How far a fit is from the paper's two conditions; 0 where it meets both.

    Our reading of "inference reaches random-chance levels while PRD stays in the diagnostic-quality
    band": the interval over patients of each training-signal attacker (identity, sex, age) holds
    chance or lies below it, as the paper's own .000, .142 and .044 do; and PRD is below `BAND`.
    Counted are each interval's distance above chance and PRD's share above the band. An attribute
    that no window has takes no part.
    """
    total = 0.0 if row["prd"]["value"] < BAND else row["prd"]["value"] / BAND - 1 + 1e-9
    return total + sum(above_chance(leaf) for leaf in row["training_signal"].values())


def above_chance(leaf: dict[str, Any]) -> float:
    """Lower end of the interval, as a share of what is above chance; 0 at or below it."""
    low = leaf["value"] if leaf["low"] is None else leaf["low"]
    return 0.0 if low is None else max(0.0, float(low) - leaf["chance"]) / (1 - leaf["chance"])


def choose_bound(rows: Mapping[float, Row]) -> Choice:
    """The smallest bound that meets both conditions, else the one nearest to them.

    Args:
        rows: of a fit with each bound, measured on validation windows.
    """
    far = {bound: excess(rows[bound]) for bound in sorted(rows)}
    nearest = min(far, key=lambda bound: far[bound])  # the first, so the smallest, of equals
    return Choice(nearest, far[nearest] == 0)


def ablated(rean: Rean, terms: str) -> Rean:
    """Only the terms named: U utility, P privacy, D distortion, which is PRD and L1 together."""
    weights = {"U": ("utility",), "P": ("privacy",), "D": ("prd", "l1")}
    off: dict[str, Any] = {name: 0.0 for term, names in weights.items() if term not in terms
                           for name in names}
    return replace(rean, **off)


def check_bounds(text: str) -> list[float]:
    """Bounds from `.02,.04`, in ascending order.

    Raises:
        InputError: one is no number in (0, 1], or there is none.
    """
    try:
        bounds = sorted({float(word) for word in text.split(",") if word})
    except ValueError:
        bounds = []
    if not bounds:
        raise InputError(f"bounds is {text!r}; allowed are numbers in (0, 1] with commas")
    return [Rean(bound=bound).bound for bound in bounds]


def study(folder: Path, settings: Settings, data: Path, bounds: Sequence[float], budget: Budget,
          progress: Progress) -> dict[str, Any]:
    """Bound, weights, targets, ablation; rean.json, which an interrupted call goes on from.

    Args:
        folder: of the study; fits and trials that it holds are not made again.
        settings: of the pooled run whose networks are the training signal.
        data: where prepared windows are kept.
        bounds: amplitude bounds to try.
        budget: of the search for the loss weights, the same for each target; `final` is the
            effort of every fit whose figures are shown.
        progress: told what is done next.
    """
    bench = build_bench(folder, settings, data, progress)
    budget = budget.filled(settings.anonymizer, len(bench.rows("train")))
    effort = budget.final
    validation = Part.of(bench, "validation", bench.rows("validation"))
    test = Part.of(bench, TEST, bench.sets[TEST])
    # 1. The bound, with the run's own weights.
    tried = {}
    for bound in bounds:
        rean = replace(settings.rean, bound=bound)
        tried[bound] = fitted(bench, validation, f"bound {bound:g}", rean, effort, progress)
    choice = choose_bound(tried)
    progress(f"bound {choice.bound:g}" + ("" if choice.qualifies else ": none qualifies, nearest"))
    # 2. The weights: each target's loss has its own scale, so each has its own search.
    first = settings.rean.target
    searches = {target: searched(bench, replace(settings.rean, bound=choice.bound, target=target),
                                 budget, progress)
                for target in sorted(TARGETS, key=lambda target: target != first)}
    best = {target: replace(settings.rean, bound=choice.bound, target=target, **found["settings"])
            for target, found in searches.items()}
    # 3. The targets, as their searches tried them: trained on from the run's own U-Net.
    targets = {target: fitted(bench, test, f"target {target}", best[target], effort, progress,
                              make_rean) for target in TARGETS}
    # 4. The ablation, from new weights, which know of no term that is left out.
    ablation = {terms: fitted(bench, test, f"{terms} {first}", ablated(best[first], terms), effort,
                              progress) for terms in TERMS}
    write_json(folder / "rean.json", {
        "bound": {"chosen": choice.bound, "qualifies": choice.qualifies, "band": BAND,
                  "tried": [{"bound": bound, "excess": excess(row), **row}
                            for bound, row in tried.items()]},
        "search": searches, "ablation": ablation, "targets": targets,
        "clean": {"validation": validation.clean, TEST: test.clean},
        "windows": {part.name: len(part.rows) for part in (validation, test)},
        "budget": {"trials": budget.trials, "minutes": budget.minutes,
                   "steps": budget.steps, "fit_steps": budget.fit_steps},
        "config": settings.as_dict()})
    found: dict[str, Any] = read_json(folder / "rean.json")
    return found


def fitted(bench: Bench, part: Part, name: str, rean: Rean, effort: Effort, progress: Progress,
           make: Callable[[Bench, Mapping[str, float]], Anonymizer] = new_rean) -> Row:
    """Fit and judge one REAN, or read the row of the same fit.

    Args:
        bench: whose training part is fitted on.
        part: what is judged.
        name: of the fit and its file.
        rean: its settings.
        effort: of the fit.
        progress: told what is done.
        make: `new_rean`, or `make_rean`, which starts from the run's U-Net.

    Returns:
        `judge`'s leaves as JSON holds them, with d, d_sym, and what was asked for.
    """
    asked = {"rean": asdict(rean), "steps": effort.steps, "batch": effort.batch,
             "seed": effort.seed, "part": part.name, "start": make.__name__}
    kept = bench.folder / "rean" / f"{name.replace(' ', '-')}.json"
    if kept.exists():
        row: Row = read_json(kept)
        if row["asked"] == asked:
            return row
    progress(f"{name}: {effort.steps} steps")
    method = make(_with(bench, rean), {})
    method.fit(bench.part("train"), bench.frozen, effort)
    row = to_plain({"asked": asked, **judged(bench, part, method)})
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_json(kept, row)
    return row


def _with(bench: Bench, rean: Rean) -> Bench:
    """The bench with other settings of REAN, from which a new one is made."""
    return replace(bench, settings=replace(bench.settings, rean=rean))


def judged(bench: Bench, part: Part, method: Anonymizer) -> dict[str, Any]:
    """Leaves of a release of one part, and its distances to the corner by the training signal."""
    windows = np.zeros_like(bench.bundles.clean)  # `judge` reads by row; the others stay untouched
    windows[part.rows] = method.anonymize(bench.data.select(part.rows))
    row = judge(replace(bench, sets={part.name: part.rows}), windows)[part.name]
    return {**row, **distances(part.clean, row)}


def searched(bench: Bench, rean: Rean, budget: Budget, progress: Progress) -> dict[str, Any]:
    """Search the four weights by validation windows; every trial is kept and shown.

    A study's name says all that its trials share, so that no other trials are mixed in.
    """
    effort, storage = budget.effort, bench.folder / "rean" / "trials.sqlite"
    fixed = {key: value for key, value in asdict(rean).items() if key not in ReanAnonymizer.space}
    name = f"{fixed} trained on, steps {effort.steps} batch {effort.batch} seed {effort.seed}"

    def trial(values: Mapping[str, float]) -> Anonymizer:
        weights = ", ".join(f"{key} {value:.3g}" for key, value in values.items())
        progress(f"{rean.target}, a trial: {weights}")
        return make_rean(_with(bench, rean), values)

    own = {key: float(getattr(rean, key)) for key in ReanAnonymizer.space}
    found = search(name, trial, ReanAnonymizer.space, own, bench.part("train"),
                   bench.part("validation"), bench.frozen, budget, storage)
    trials = optuna.load_study(study_name=name, storage=f"sqlite:///{storage}").trials
    return {"settings": found.settings, "d_sym": found.distance,
            "trials": [{"number": one.number, "d_sym": one.value, **one.params,
                        "point": one.user_attrs["point"]}
                       for one in trials if one.values and math.isfinite(one.values[0])]}
