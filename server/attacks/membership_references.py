"""Membership against reference models: RMIA on every released model, LiRA on the diagnosis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.membership import levelled, lira, logit, rmia
from common.protocol import Stage
from common.training import seed_from
from server.attacks.case import Case
from server.attacks.membership import verdict
from server.attacks.references import References, can_train, halves
from server.attacks.signals import Signal, signals

Floats = NDArray[np.float64]


def attack(case: Case) -> dict[str, Any]:
    """Model -> "rmia", and "lira" for the diagnosis -> the tree of `verdict`."""
    bundles, audit = case.bundles, case.settings.audit
    seed = seed_from(case.settings, "reference", "halves")
    found: dict[str, Any] = {}
    for stage, signal in signals(case).items():
        if not can_train(case, stage):
            continue
        count = max(audit.references, audit.shadows if stage == "diagnosis" else 0)
        inside = halves(bundles.patient, bundles.hospital, count, seed)
        losses = reference_losses(References(case, inside), stage, signal)
        seen = inside[:, bundles.patient[signal.rows]]
        first = slice(audit.references)
        found[stage] = {"rmia": verdict(bundles, signal.rows, rmia_by_hospital(
            case, signal, losses[first], seen[first]))}
        if stage == "diagnosis":
            score = lira(levelled(logit(signal.target)), levelled(logit(losses)), seen)
            found[stage]["lira"] = verdict(bundles, signal.rows, score)
    return found


def reference_losses(references: References, stage: Stage, signal: Signal) -> Floats:
    """Loss of each of a signal's windows under each reference, [references, n]."""
    hospital = references.case.bundles.hospital[signal.rows]
    losses = np.empty((len(references.inside), len(signal.rows)))
    for number in range(len(losses)):
        for group in references.groups:
            at = np.flatnonzero(np.isin(hospital, group))
            if len(at):
                network = references.network(stage, number, group)
                losses[number, at] = signal.under(network, signal.rows[at])
    return losses


def rmia_by_hospital(case: Case, signal: Signal, losses: Floats,
                     seen: NDArray[np.bool_]) -> Floats:
    """RMIA with the other patients of the same hospital as its population, [n]."""
    patient, hospital = (column[signal.rows] for column in (case.bundles.patient,
                                                            case.bundles.hospital))
    score = np.full(len(signal.rows), np.nan)
    for site in np.unique(hospital):
        at = np.flatnonzero(hospital == site)
        score[at] = rmia(-signal.target[at], -losses[:, at], seen[:, at], patient[at])
    return score
