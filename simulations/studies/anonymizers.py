"""`fedrean study anonymizers`: every method on one bench, in one table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from common.anonymizers.additive_noise import GaussianNoise, LaplacianNoise
from common.anonymizers.contract import Anonymizer, Effort, Floats, Range
from common.anonymizers.lee import LeeNoise
from common.anonymizers.pp_vae import PPVae
from common.anonymizers.privecg import PrivEcg
from common.anonymizers.react import React
from common.anonymizers.rean import ReanAnonymizer
from common.anonymizers.surrogate import Surrogate
from common.anonymizers.transecg import TransECG
from common.audits.attributes import attribute
from common.audits.auroc import auroc
from common.audits.corner import Point, corner_distance, symmetric_corner_distance
from common.audits.reidentification import closed_set
from common.audits.utility import diagnosis, prd
from common.config import Rean, Settings
from common.ecg.labels import decided
from common.errors import InputError
from common.models.classifier import build
from common.protocol import ARRHYTHMIA_CLASSES
from common.results import Estimate, clustered_bootstrap, read_json, write_json
from common.training import Indices, predict, seed_from
from server.attackers import train_attacker, train_diagnosis
from simulations.studies.bench import Bench, Progress, build_bench, keep_array
from simulations.studies.search import Budget, search

Values = Mapping[str, float]


def make_rean(bench: Bench, values: Values) -> Anonymizer:
    """REAN with the loss weights of `values`: a new U-Net of the run's size."""
    settings = bench.settings
    network = build("anonymizer", settings, settings.leads, 0, seed_from(settings, "rean"))
    tree = {**asdict(settings.rean), **values}
    return ReanAnonymizer(network, Rean(**tree), settings.anonymizer.lr)


def make_surrogate(bench: Bench, values: Values, rate: str) -> Anonymizer:
    """The surrogate; its settings are not searched, as nothing in it is learned."""
    return Surrogate(rate)


def defaults(bench: Bench, name: str) -> dict[str, float]:
    """What a method takes for each setting that is searched: the run's for REAN, else its own."""
    factory, space = METHODS[name]
    method = factory(bench, {})
    source = method.settings if isinstance(method, ReanAnonymizer) else method
    return {key: float(getattr(source, key)) for key in space}


METHODS: dict[str, tuple[Callable[[Bench, Values], Anonymizer], Mapping[str, Range]]] = {
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
    clean = judge(bench, bench.bundles.clean)
    rows = {}
    for name in methods:
        file = folder / "methods" / name / "row.json"
        if not file.exists():
            write_json(file, _method(bench, name, clean, budget, progress))
        rows[name] = read_json(file)
    results = {"clean": clean, "methods": rows, "config": settings.as_dict(),
               "budget": {"trials": budget.trials, "minutes": budget.minutes,
                          "steps": budget.effort.steps},
               "sets": {name: len(chosen) for name, chosen in bench.sets.items()}}
    write_json(folder / "results.json", results)
    found: dict[str, Any] = read_json(folder / "results.json")
    return found


def _method(bench: Bench, name: str, clean: dict[str, Any], budget: Budget,
            progress: Progress) -> dict[str, Any]:
    """Search, fit, release and judge one method."""
    folder, (factory, space) = bench.folder / "methods" / name, METHODS[name]
    folder.mkdir(parents=True, exist_ok=True)
    make, train = partial(factory, bench), bench.part("train")
    settings: dict[str, float] = {}
    searched: dict[str, Any] = {"trials": 0}
    if space:
        progress(f"{name}: searching settings, {budget.trials} trials")
        found = search(name, make, space, defaults(bench, name), train, bench.part("validation"),
                       bench.frozen, budget, folder / "trials.sqlite")
        progress(f"{name}: {found.trials} trials in {found.minutes:.1f} min, best d_sym "
                 f"{found.distance:.3f}")
        settings, searched = found.settings, {"trials": found.trials, "minutes": found.minutes,
                                              "d_sym": found.distance}
    progress(f"{name}: fitting and releasing")
    started = time.perf_counter()
    method = make(settings)
    method.fit(train, bench.frozen, budget.effort)
    fitted = time.perf_counter()
    seed = seed_from(bench.settings, "release", name)
    released = keep_array(folder / "released.npy", lambda: method.anonymize(bench.data, seed))
    ended = time.perf_counter()
    progress(f"{name}: judging")
    row = judge(bench, released)
    row["retrained"] = _retrained(bench, released, folder)
    for which, rows in bench.sets.items():
        row[which] |= _distances(bench, clean[which], row[which], rows)
        row[which]["auroc_minus_clean"] = paired(bench, released, rows)
    return {**row, "settings": settings, "search": searched, "fit_s": fitted - started,
            "ms_per_window": 1000 * (ended - fitted) / len(bench.data)}


def judge(bench: Bench, windows: Floats) -> dict[str, Any]:
    """Leakage and utility of one version of the windows, on each evaluation set."""
    return {name: _on(bench, windows[rows], rows) for name, rows in bench.sets.items()}


def _on(bench: Bench, windows: Floats, rows: Indices) -> dict[str, Any]:
    bundles = bench.bundles
    patient, allowed = bundles.patient[rows], bundles.allowed[rows]
    answers = bench.attacker.answers(windows)
    frozen = {name: _scores(getattr(bench.frozen, name), windows)
              for name in ("diagnosis", "identity", "sex", "age")}
    return {
        "reid": closed_set(answers["reid"], patient, patient),
        "sex": attribute(answers["sex"], bundles.sex[rows], patient),
        "age": attribute(answers["age"], bundles.age[rows], patient),
        "training_signal": {
            "reid": closed_set(frozen["identity"], bundles.slot[rows], patient),
            "sex": attribute(frozen["sex"], bundles.sex[rows], patient),
            "age": attribute(frozen["age"], bundles.age[rows], patient)},
        "frozen": diagnosis(frozen["diagnosis"], allowed, patient),
        "independent": {name: diagnosis(_scores(network, windows), allowed, patient)
                        for name, network in bench.judges.items()},
        "prd": prd(bundles.clean[rows], windows, patient),
    }


def _scores(network: nn.Module, windows: Floats) -> NDArray[np.float64]:
    return predict(network, windows).double().numpy()


def _retrained(bench: Bench, released: Floats, folder: Path) -> dict[str, Any]:
    """Attacker and diagnosis retrained on the release, on each evaluation set."""
    bundles = bench.bundles
    attacker = train_attacker(bundles, released, bench.settings, folder / "retrained.safetensors",
                              start=bench.attacker)
    network = train_diagnosis(bundles, released, bench.settings,
                              folder / "retrained-diagnosis.safetensors")
    found: dict[str, Any] = {}
    for name, rows in bench.sets.items():
        answers, patient = attacker.answers(released[rows]), bundles.patient[rows]
        found[name] = {
            "reid": closed_set(answers["reid"], patient, patient),
            "sex": attribute(answers["sex"], bundles.sex[rows], patient),
            "age": attribute(answers["age"], bundles.age[rows], patient),
            "diagnosis": diagnosis(_scores(network, released[rows]), bundles.allowed[rows],
                                   patient)}
    return found


def _distances(bench: Bench, clean: dict[str, Any], row: dict[str, Any],
               rows: Indices) -> dict[str, float]:
    """d as the paper's table, and d_sym, by the networks that the paper measures with."""
    def point(one: dict[str, Any]) -> Point:
        signal = one["training_signal"]
        return Point(signal["reid"].value, signal["sex"].value, signal["age"].value,
                     one["frozen"]["arrhythmia_accuracy"].value, one["prd"].value)

    chance = {"reid": clean["training_signal"]["reid"].chance, "age": 0.2}
    return {"d": corner_distance(point(clean), point(row), chance),
            "d_sym": symmetric_corner_distance(point(clean), point(row), chance)}


def paired(bench: Bench, released: Floats, rows: Indices) -> dict[str, Estimate]:
    """Macro-AUROC released minus clean, per network, with a paired patient-clustered interval."""
    bundles = bench.bundles
    classes = decided(bundles.allowed[rows])
    kept = rows[classes >= 0]
    truth = classes[classes >= 0]
    present = [c for c in range(len(ARRHYTHMIA_CLASSES)) if 0 < np.sum(truth == c) < len(truth)]
    networks = {"frozen": bench.frozen.diagnosis, **bench.judges}
    found = {}
    for name, network in networks.items():
        before, after = (_scores(network, version[kept]) for version in (bundles.clean, released))

        def gain(weights: NDArray[np.float64], before: NDArray[np.float64] = before,
                 after: NDArray[np.float64] = after) -> NDArray[np.float64]:
            each = [auroc(truth == c, after[:, c], weights) - auroc(truth == c, before[:, c],
                                                                    weights) for c in present]
            return np.asarray(np.nanmean(each, axis=0))

        found[name] = clustered_bootstrap(gain, bundles.patient[kept])
    return found


def default_budget(settings: Settings, trials: int, minutes: float, steps: int) -> Budget:
    """One budget for all methods."""
    return Budget(trials, minutes, Effort(steps, settings.anonymizer.batch, settings.seed))
