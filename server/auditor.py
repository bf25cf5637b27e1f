"""Step 6: the server attacks the release, as hard as a determined recipient could.

The auditor's own attackers lead; the frozen networks that were the training signal are a second,
weaker row ("training_signal"), since the anonymizer was trained against exactly them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from common.audits.attributes import attribute
from common.audits.membership import loss_gap
from common.audits.reidentification import closed_set, identification_rate, protocols
from common.audits.utility import diagnosis, prd
from common.config import Settings
from common.protocol import ARRHYTHMIA_CLASSES
from common.results import SCHEMA_VERSION, Estimate
from common.scenarios import scenario_of
from common.training import allowed_loss, predict
from server.attackers import Attacker, Windows, train_attacker, train_diagnosis
from server.bundles import Bundles
from server.learned import not_learned


def audit(bundles: Bundles, settings: Settings, folder: Path,
          progress: Callable[[str], None]) -> dict[str, Any]:
    """All attacks; the metrics.json tree without timing and curves.

    Args:
        bundles: what the hospitals exported.
        settings: of the run.
        folder: where the auditor keeps its networks, so that an interrupted audit goes on.
        progress: told what is done next.
    """
    progress("training an attacker on clean windows")
    attacker = train_attacker(bundles, bundles.clean, settings,
                              folder / "clean.safetensors")
    progress("retraining an attacker on released windows")
    retrained = train_attacker(bundles, bundles.released, settings,
                               folder / "retrained.safetensors", start=attacker)
    progress("training an independent diagnosis network")
    independent = train_diagnosis(bundles, bundles.clean, settings,
                                  folder / "independent.safetensors")
    progress("attacking")
    clean = _row(bundles, "clean", attacker, independent)
    return {
        "schema_version": SCHEMA_VERSION,
        "clean": clean,
        "anonymizers": {"rean": {
            **_row(bundles, "released", attacker, independent),
            "retrained": {"100": {"resnet1d": _attack(bundles, retrained, bundles.released)}},
            **_cost(bundles, settings)}},
        "identification": _identification(bundles, attacker, retrained),
        "membership": {"diagnosis": _membership(bundles)},
        "privacy": {info["site"]: info["privacy"] for info in bundles.info},
        "data": {info["site"]: info["data"] for info in bundles.info},
        "warnings": not_learned(
            {"the auditor's attacker": clean, "the training signal": clean["training_signal"]},
            {"frozen": clean["macro_auroc"], "independent": clean["independent"]["macro_auroc"]}),
        "guarantee": scenario_of(
            settings.training, settings.privacy.unit, settings.engine).guarantee,
        "config": settings.as_dict(),
        "seed": settings.seed,
    }


def _row(bundles: Bundles, version: str, attacker: Attacker,
         independent: nn.Module) -> dict[str, Any]:
    """Leakage and utility of one version of the windows, clean or released."""
    windows = bundles.clean if version == "clean" else bundles.released
    return {
        **_attack(bundles, attacker, windows),
        **_utility(bundles, version, windows, independent, reserved=False),
        "reserved": _utility(bundles, version, windows, independent, reserved=True),
        "training_signal": _training_signal(bundles, version),
    }


def _cost(bundles: Bundles, settings: Settings) -> dict[str, float]:
    """Windows that the anonymizer saw (expected, where batches are Poisson), and its time."""
    passes = settings.anonymizer.rounds * settings.anonymizer.epochs
    return {"windows_seen": passes * int(np.sum((bundles.part == 0) & ~bundles.reserved)),
            "ms_per_window": float(np.mean([info["ms_per_window"] for info in bundles.info]))}


def _attack(bundles: Bundles, attacker: Attacker, windows: Windows) -> dict[str, Estimate]:
    """ReID, sex and age on the test part; ReID also on patients that no training saw."""
    test = bundles.rows("test")
    answers, patient = attacker.answers(windows[test]), bundles.patient[test]
    reserved = bundles.reserved[test]
    return {
        "reid": closed_set(answers["reid"], patient, patient),
        "reid_reserved": closed_set(answers["reid"][reserved], patient[reserved],
                                    patient[reserved]),
        "sex": attribute(answers["sex"], bundles.sex[test], patient),
        "age": attribute(answers["age"], bundles.age[test], patient),
    }


def _frozen(bundles: Bundles, stage: str, version: str) -> NDArray[np.float64]:
    return np.concatenate(bundles.frozen[f"{stage}-{version}"]).astype(np.float64)


def _utility(bundles: Bundles, version: str, windows: Windows, independent: nn.Module,
             reserved: bool) -> dict[str, Any]:
    """What is left of the diagnosis, for patients in training (as in the paper) or the others."""
    rows = bundles.rows("test")
    rows = rows[bundles.reserved[rows] == reserved]
    allowed, patient = bundles.allowed[rows], bundles.patient[rows]
    if not len(rows):
        return {}
    scores = predict(independent, windows[rows]).double().numpy()
    return {
        **diagnosis(_frozen(bundles, "diagnosis", version)[rows], allowed, patient),
        "independent": diagnosis(scores, allowed, patient),
        "prd": prd(bundles.clean[rows], windows[rows], patient),
    }


def _training_signal(bundles: Bundles, version: str) -> dict[str, Estimate]:
    """The frozen biometric networks; identity inside each hospital, by its own head."""
    test = bundles.rows("test")
    test = test[~bundles.reserved[test]]
    widest = max(scores.shape[1] for scores in bundles.frozen[f"identity-{version}"])
    # A hospital with fewer slots has no score for the others: they can never be the highest.
    identity = np.concatenate([
        np.pad(scores, ((0, 0), (0, widest - scores.shape[1])), constant_values=-np.inf)
        for scores in bundles.frozen[f"identity-{version}"]]).astype(np.float64)
    hit = closed_set(identity[test], bundles.slot[test], bundles.patient[test])
    return {
        "reid": Estimate(hit.value, hit.low, hit.high, hit.n, 1 / widest),
        "sex": attribute(_frozen(bundles, "sex", version)[test], bundles.sex[test],
                         bundles.patient[test]),
        "age": attribute(_frozen(bundles, "age", version)[test], bundles.age[test],
                         bundles.patient[test]),
    }


def _identification(bundles: Bundles, attacker: Attacker, retrained: Attacker) -> dict[str, Any]:
    """Nearest enrolled window: clean probes, released probes, and released against released."""
    pairs = {"clean": (attacker, bundles.clean, bundles.clean),
             "rean": (attacker, bundles.clean, bundles.released),
             "rean_retrained": (retrained, bundles.released, bundles.released)}
    found = protocols(bundles.patient, bundles.record, bundles.start, bundles.rows("train"),
                      bundles.rows("test"))
    return {
        protocol: {
            name: identification_rate(network.embed(enrolled[gallery]), bundles.patient[gallery],
                                      network.embed(probes[probe]), bundles.patient[probe])
            for name, (network, enrolled, probes) in pairs.items()}
        for protocol, (gallery, probe) in found.items()}


def _membership(bundles: Bundles) -> dict[str, Any]:
    """Loss gap of the diagnosis model, which leaves the hospital, per hospital."""
    loss = allowed_loss(torch.from_numpy(_frozen(bundles, "diagnosis", "clean")),
                        torch.from_numpy(bundles.allowed.astype(np.int64))).numpy()
    informative = bundles.allowed != (1 << len(ARRHYTHMIA_CLASSES)) - 1
    result = {}
    for number, info in enumerate(bundles.info):
        rows = np.flatnonzero((bundles.hospital == number) & (bundles.part == 0) & informative)
        result[info["site"]] = loss_gap(loss[rows], ~bundles.reserved[rows], bundles.patient[rows])
    return result
