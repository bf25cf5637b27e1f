"""How each method of the study makes its release: searched, fitted, or taken from a run of its own.

Every release is kept with how it was made, so that an interrupted study goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from common.anonymizers.additive_noise import GaussianNoise, LaplacianNoise
from common.anonymizers.contract import Anonymizer, Floats, Range
from common.anonymizers.lee import LeeNoise
from common.anonymizers.pp_vae import PPVae
from common.anonymizers.privecg import PrivEcg
from common.anonymizers.react import React
from common.anonymizers.rean import ReanAnonymizer
from common.anonymizers.surrogate import Surrogate
from common.anonymizers.transecg import TransECG
from common.config import Privacy, Rean, Settings
from common.models.classifier import build
from common.protocol import STAGES
from common.results import read_json, write_json
from common.training import Indices, seed_from
from simulations.consortium import federate, prepare_sites
from simulations.studies.bench import Bench, Progress, keep_array
from simulations.studies.search import Budget, search

Values = Mapping[str, float]
How = dict[str, Any]  # settings, search, fit_s, ms_per_window; privacy of a run


def make_rean(bench: Bench, values: Values) -> Anonymizer:
    """REAN with the loss weights of `values`, to be trained on from the run's own U-Net.

    From new weights a trial would need the steps of a whole run: for thousands of steps nothing is
    better, by d_sym, than to do nothing, so that a search of short trials finds just that.
    """
    method = new_rean(bench, values)
    method.network.load_state_dict(bench.rean.state_dict())
    return method


def new_rean(bench: Bench, values: Values) -> ReanAnonymizer:
    """REAN with the loss weights of `values`: a new U-Net of the run's size."""
    settings = bench.settings
    network = build("anonymizer", settings, settings.leads, 0, seed_from(settings, "rean"))
    tree = {**asdict(settings.rean), **values}
    return ReanAnonymizer(network, Rean(**tree), settings.anonymizer.lr)


def make_surrogate(bench: Bench, values: Values, rate: str) -> Anonymizer:
    """The surrogate; not searched: the search judges by a network that sits on its panel."""
    return Surrogate(rate)


FITTED: dict[str, tuple[Callable[[Bench, Values], Anonymizer], Mapping[str, Range]]] = {
    "gaussian": (lambda _, values: GaussianNoise(**values), GaussianNoise.space),
    "laplacian": (lambda _, values: LaplacianNoise(**values), LaplacianNoise.space),
    "transecg": (lambda _, values: TransECG(**values), TransECG.space),
    "lee": (lambda _, values: LeeNoise(**values), LeeNoise.space),
    "pp_vae": (lambda _, values: PPVae(**values), PPVae.space),
    "privecg": (lambda _, values: PrivEcg(**values), PrivEcg.space),
    "react": (lambda _, values: React(**values), React.space),
    "rean": (make_rean, ReanAnonymizer.space),
    "surrogate": (partial(make_surrogate, rate="randomise"), {}),
    "surrogate_rate_kept": (partial(make_surrogate, rate="keep"), {}),
}


def defaults(bench: Bench, name: str) -> dict[str, float]:
    """What a method takes for each setting that is searched: the run's for REAN, else its own."""
    factory, space = FITTED[name]
    method = factory(bench, {})
    source = method.settings if isinstance(method, ReanAnonymizer) else method
    return {key: float(getattr(source, key)) for key in space}


# REAN as whole runs train it: with the run's own weights and steps, and its own frozen networks.
TRAINED: dict[str, Callable[[Settings], Settings]] = {
    "rean_pooled": lambda settings: settings,
    "rean_federated": lambda settings: replace(settings, training="federated"),
    "rean_local": lambda settings: replace(settings, training="local"),
    "rean_window_dp": lambda settings: replace(
        settings, training="federated", privacy=Privacy(unit="window"),
        rean=replace(settings.rean, windows=0)),
}
METHODS = (*FITTED, "aggregates", *TRAINED)

# REACT learns anew for each window, a quarter of a second: of it, the evaluation sets are released,
# and so many training windows for the attacker who retrains.
FEW = {"react": 600}
_VALIDATION = 500  # windows that a trial is judged by


def make_release(bench: Bench, name: str, budget: Budget, data: Path,
                 progress: Progress) -> tuple[Floats, How]:
    """The released windows of one method, [n, leads, L] in the bench's order, and how they came.

    A method in `FEW` releases some; the others' rows are NaN.

    Args:
        bench: what all methods share.
        name: one of `METHODS`.
        budget: of the search; runs do not search.
        data: where prepared windows are kept.
        progress: told what is done next.
    """
    folder = bench.folder / "methods" / name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "release.json"
    if not file.exists():
        make = partial(_from_run, data=data) if name in TRAINED else partial(_fit, budget=budget)
        (folder / "released.npy").unlink(missing_ok=True)  # of a call that ended before its record
        released, how = make(bench, name, folder, progress=progress)
        keep_array(folder / "released.npy", lambda: released)
        write_json(file, how)
    found: How = read_json(file)
    return np.load(folder / "released.npy", mmap_mode="r"), found


def _fit(bench: Bench, name: str, folder: Path, budget: Budget,
         progress: Progress) -> tuple[Floats, How]:
    """Search on validation windows, fit on training windows, release all."""
    factory, space = FITTED[name]
    make, train = partial(factory, bench), bench.part("train")
    settings: dict[str, float] = {}
    searched: dict[str, Any] = {"trials": 0}
    if space:
        progress(f"{name}: searching settings, {budget.trials} trials")
        validation = bench.data.select(some(bench, bench.rows("validation"), _VALIDATION))
        found = search(name, make, space, defaults(bench, name), train, validation,
                       bench.frozen, budget, folder / "trials.sqlite")
        progress(f"{name}: {found.trials} trials in {found.minutes:.1f} min, best d_sym "
                 f"{found.distance:.3f}")
        settings, searched = found.settings, {"trials": found.trials, "minutes": found.minutes,
                                              "d_sym": found.distance}
    progress(f"{name}: fitting and releasing")
    started = time.perf_counter()
    method = make(settings)
    method.fit(train, bench.frozen, budget.final)
    fitted = time.perf_counter()
    rows = np.arange(len(bench.data))
    if name in FEW:
        rows = np.unique(np.concatenate([some(bench, bench.rows("train"), FEW[name]),
                                         *bench.sets.values()]))
    released = np.full(bench.data.x.shape, np.nan, dtype=np.float32)
    released[rows] = method.anonymize(bench.data.select(rows),
                                      seed_from(bench.settings, "release", name))
    return released, {"settings": settings, "search": searched, "fit_s": fitted - started,
                      "ms_per_window": 1000 * (time.perf_counter() - fitted) / len(rows)}


def some(bench: Bench, rows: Indices, n: int) -> Indices:
    """At most `n` of the rows, drawn by the run's seed, in order."""
    generator = np.random.default_rng(seed_from(bench.settings, "some", str(n)))
    return np.sort(generator.choice(rows, min(n, len(rows)), replace=False))


def _from_run(bench: Bench, name: str, folder: Path, data: Path,
              progress: Progress) -> tuple[Floats, How]:
    """A run over the same hospitals; the pooled one is the bench's own."""
    settings = TRAINED[name](bench.settings)
    run, names = bench.folder, ["pooled"]
    if settings.training != "pooled":
        run = folder / "run"
        run.mkdir(exist_ok=True)
        sites, _ = prepare_sites(settings, data, lambda stage, number, rounds: None)
        settings = as_long(settings, len(sites))
        groups = [[site] for site in sites] if settings.training == "local" else [sites]
        for group in groups:
            where = f"{name}, {group[0].name}" if len(group) < len(sites) else name
            federate(run, settings, group, lambda stage, number, rounds, where=where: progress(
                f"{where}: {stage} {number}/{rounds}"))
        names = [site.name for site in sites]  # pooled windows lie in this order
    info = [read_json(run / "bundles" / one / "bundle.json") for one in names]
    released = np.concatenate([np.load(run / "bundles" / one / "released.npy") for one in names])
    return released, {"settings": {}, "search": {"trials": 0}, "fit_s": None,
                      "ms_per_window": float(np.mean([one["ms_per_window"] for one in info])),
                      "privacy": {one["site"]: one["privacy"] for one in info}}


def as_long(settings: Settings, hospitals: int) -> Settings:
    """Rounds for as many steps of each stage at a hospital as the pooled run makes.

    A round is a pass over the hospital's own share of the windows. With the pooled run's rounds the
    averaged classifiers stay weak, REAN learns to hide from weak attackers and does nearly nothing,
    and the row would tell of that.
    """
    longer: dict[str, Any] = {
        stage: replace(settings.stage(stage), rounds=settings.stage(stage).rounds * hospitals)
        for stage in STAGES}
    return replace(settings, **longer)
