"""`fedrean study orthogonality`: is the privacy direction at right angles to the diagnosis?

Source: Ki et al., REAN (arXiv:2607.06037), section II-B; common/audits/orthogonality.py measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from common.anonymizers.contract import Labelled
from common.audits.attributes import attribute
from common.audits.orthogonality import (
    ATTRIBUTES,
    equal_steps,
    input_angles,
    parameter_cosines,
)
from common.audits.reidentification import closed_set
from common.audits.utility import diagnosis
from common.config import Settings
from common.ecg.labels import decided
from common.ecg.subsets import natural_subset
from common.errors import InputError
from common.models.classifier import build
from common.results import Estimate, read_json, write_json
from common.training import Indices, device_of, predict, seed_from
from server.attackers import ARCHITECTURES, Attacker, train_attacker
from simulations.studies.bench import PooledRun, Progress, pooled_run

SHARES = (0.01, 0.02, 0.05, 0.1)  # of a window's norm
LEARNED = 0.5  # of the way from chance to 1: a network below has no direction worth an angle
PROBE = 0.01  # bound of the untrained anonymizer, so small that its release is nearly clean


class Answer(nn.Module):
    """One attribute's logits of an attacker that tells all three. [B, leads, L] -> [B, classes]."""

    def __init__(self, attacker: Attacker, attribute: str) -> None:
        super().__init__()
        self.attacker, self.part = attacker, ATTRIBUTES.index(attribute)

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, classes]."""
        out: Tensor = self.attacker(x).split(self.attacker.sizes, dim=1)[self.part]
        return out


def study(folder: Path, settings: Settings, data: Path, windows: int,
          progress: Progress) -> dict[str, Any]:
    """Measure angles, cosines and equal steps; orthogonality.json, written whole.

    Args:
        folder: of the pooled run; the networks that it holds already are not trained again.
        settings: of the pooled run.
        data: where prepared windows are kept.
        windows: of the test part to measure on; fewer where fewer have a decided diagnosis.
        progress: told what is done next.

    Raises:
        InputError: `windows` below 1; not a pooled run; no window with all its labels.
    """
    if windows < 1:
        raise InputError(f"windows is {windows}; allowed is 1 or more")
    run = pooled_run(folder, settings, data, progress)
    rows = _test_windows(run, len(run.data))
    test = run.data.select(_test_windows(run, windows))
    others = _attackers(run, progress)
    progress(f"angles on {len(test)} test windows")
    angles = input_angles(run.frozen, test, others)
    progress("cosines in the anonymizer's parameters")
    probe = build("anonymizer", settings, settings.leads, 0, seed_from(settings, "orthogonality"))
    cosines = parameter_cosines(probe.to(device_of(settings.device)), PROBE, run.frozen, test)
    progress("equally long steps")
    try:
        steps = equal_steps(run.frozen, test, SHARES, settings.seed)
    except ValueError as error:
        raise InputError(f"{error}; at least 1 is needed") from None
    write_json(folder / "orthogonality.json", {
        "windows": len(test), "asked": windows, "available": len(rows),
        "patients": len(np.unique(test.patient)), "samples": int(np.prod(test.x.shape[1:])),
        "clean": _clean(run, test, others), "angles": angles, "parameter_cosines": cosines,
        "steps": steps, "config": settings.as_dict()})
    found: dict[str, Any] = read_json(folder / "orthogonality.json")
    return found


def _test_windows(run: PooledRun, size: int) -> Indices:
    """Test windows of a decided diagnosis, of patients in training."""
    classes = decided(run.store.labels(run.settings.labels))
    return natural_subset(run.store.index, classes, run.settings.seed, max(1, size))


def _attackers(run: PooledRun, progress: Progress) -> dict[str, dict[str, nn.Module]]:
    """Attackers of each architecture, trained on clean windows with the auditor's budget."""
    # Their identities are numbered as the frozen head's are, so that one label serves both.
    bundles = replace(run.bundles, patient=run.bundles.slot)
    found: dict[str, dict[str, nn.Module]] = {}
    for name in ARCHITECTURES:
        progress(f"attacker {name}, {run.settings.audit.steps} steps")
        attacker = train_attacker(
            bundles, bundles.clean, run.settings,
            run.folder / "audit" / f"orthogonality-{name}.safetensors", architecture=name)
        attacker.eval().requires_grad_(False)
        found[name] = {what: Answer(attacker, what) for what in ATTRIBUTES}
    return found


def _clean(run: PooledRun, test: Labelled,
           others: Mapping[str, Mapping[str, nn.Module]]) -> dict[str, dict[str, Estimate]]:
    """What each network makes of the same clean windows: macro-AUROC, accuracies."""
    frozen = {name: getattr(run.frozen, name) for name in ATTRIBUTES}
    scores = predict(run.frozen.diagnosis, test.x).double().numpy()
    judged = diagnosis(scores, test.allowed.astype(np.uint8), test.patient)
    found: dict[str, dict[str, Estimate]] = {"diagnosis": {"macro_auroc": judged["macro_auroc"]}}
    for name, networks in {"frozen": frozen, **others}.items():
        found[name] = {what: _accuracy(network, what, test) for what, network in networks.items()}
    return found


def _accuracy(network: nn.Module, what: str, test: Labelled) -> Estimate:
    scores = predict(network, test.x).double().numpy()
    if what == "identity":
        return closed_set(scores, test.identity, test.patient)
    return attribute(scores, getattr(test, what), test.patient)


def learned(leaf: Mapping[str, Any]) -> bool:
    """Whether a clean figure {value, chance} is at least half of the way from chance to 1."""
    value, chance = leaf["value"], leaf["chance"]
    return bool(value is not None and (value - chance) / (1 - chance) >= LEARNED)


def unlearned(results: Mapping[str, Any], network: str, part: str) -> list[str]:
    """Which networks behind an angle did not learn their task: of a bundle, any of its three."""
    parts = ATTRIBUTES if part == "bundled" else (part,)
    weak = [name for name in parts if not learned(results["clean"][network][name])]
    diagnosing = results["clean"]["diagnosis"]["macro_auroc"]
    return weak + ([] if learned(diagnosing) else ["diagnosis"])
