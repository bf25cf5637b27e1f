"""What the bench says of a release: leakage, utility, distance, and the same once retrained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from common.anonymizers.contract import Floats
from common.audits.attributes import attribute
from common.audits.corner import Point, corner_distance, symmetric_corner_distance
from common.audits.reidentification import closed_set
from common.audits.utility import diagnosis, gain, prd
from common.results import Estimate
from common.training import Indices, predict
from server.attackers import present, train_attacker, train_diagnosis
from simulations.studies.bench import Bench


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


def retrained(bench: Bench, released: Floats, folder: Path) -> dict[str, Any]:
    """Attacker and diagnosis retrained on the release, on each evaluation set."""
    bundles = bench.bundles
    attacker = train_attacker(bundles, released, bench.settings, folder / "retrained.safetensors",
                              start=bench.attacker)
    network = train_diagnosis(bundles, released, bench.settings,
                              folder / "retrained-diagnosis.safetensors")
    found: dict[str, Any] = {"windows": len(present(released, bundles.rows("train")))}
    for name, rows in bench.sets.items():
        answers, patient = attacker.answers(released[rows]), bundles.patient[rows]
        found[name] = {
            "reid": closed_set(answers["reid"], patient, patient),
            "sex": attribute(answers["sex"], bundles.sex[rows], patient),
            "age": attribute(answers["age"], bundles.age[rows], patient),
            "diagnosis": diagnosis(_scores(network, released[rows]), bundles.allowed[rows],
                                   patient)}
    return found


def distances(clean: dict[str, Any], row: dict[str, Any]) -> dict[str, float]:
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
    bundles, networks = bench.bundles, {"frozen": bench.frozen.diagnosis, **bench.judges}
    return {name: gain([(_scores(network, bundles.clean[rows]), _scores(network, released[rows]))],
                       bundles.allowed[rows], bundles.patient[rows])
            for name, network in networks.items()}
