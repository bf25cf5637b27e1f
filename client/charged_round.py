"""One round of training that is paid for: the ledger first, then the training, then the reply.

A retry with the same inputs resends the same bytes free; any other is charged.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import cast

import numpy as np
from safetensors import SafetensorError
from torch import Tensor, nn

from client.feasibility import USEFUL, noise_over_signal
from client.hospital import Hospital
from client.ledger import Release, Trust, Unit
from client.local_round import (
    LocalRound,
    noisy_sum,
    open_draws,
    secret_draws,
    train_per_patient,
    train_plainly,
    train_privately,
)
from common.errors import BudgetError, NoWindowsError
from common.models.classifier import load_shared, shared_state
from common.models.files import load_state, save_state
from common.privacy.accounting import Spend, calibrate
from common.privacy.shares import share_sigma
from common.protocol import STAGES, Stage
from common.training import Indices, sampling, sampling_of_patients, seed_from

log = logging.getLogger("fedrean.client")
_NO_CLIP = 1e9  # larger than any gradient


@dataclass(frozen=True)
class Update:
    """What a training round gives: weights that may leave, and the count the hospital declares.

    Args:
        state: weights.
        examples: training windows; of unit patient, patients, or the public number of them.
        loss: mean over what was seen, which leaves only without privacy.
    """

    state: dict[str, Tensor]
    examples: int
    loss: float


def digest(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of named weights, in the order of their names."""
    sha = hashlib.sha256()
    for name in sorted(state):
        sha.update(name.encode())
        sha.update(np.ascontiguousarray(state[name].detach().cpu().numpy()).tobytes())
    return sha.hexdigest()


def train_round(hospital: Hospital, stage: Stage, number: int, received: Mapping[str, Tensor],
                hospitals: int = 1) -> Update:
    """Train one round from the received weights, charge the ledger, keep the reply.

    Args:
        hospital: who trains.
        stage: of the run.
        number: of the round, or, where only the sum over hospitals is private, of the step.
        received: weights.
        hospitals: how many are asked, of which each adds a share of the noise there.

    Raises:
        NoWindowsError: no usable window for the stage.
        BudgetError: the ledger's cap does not allow the round.
    """
    rows, privacy = hospital.usable(stage), hospital.settings.privacy
    if not len(rows) and privacy.trust == "hospital":  # the sum needs everybody's share of noise
        raise NoWindowsError(f"hospital {hospital.site} has 0 usable training windows for "
                             f"{stage}; at least 1 is needed")
    declared = _declared(hospital, rows)
    inputs = digest(received)
    kept = hospital.state / "replies" / f"{stage}-{number}.safetensors"
    settled = hospital.ledger.find(hospital.run, stage, number, inputs)
    if settled is not None and kept.exists():
        return Update(_kept(kept, settled), declared, float("nan"))
    network = hospital.network(stage)
    load_shared(stage, network, received)
    if stage == "identity":
        hospital.load_head(network, number - 1)
    spend = _spend(hospital, stage, len(rows))
    row = hospital.ledger.charge(
        hospital.run, stage, number, cast(Unit, privacy.unit), spend, privacy.delta, inputs,
        privacy.cap or privacy.epsilon, cast(Trust, privacy.trust))
    if spend and privacy.trust == "aggregate":
        state, loss = _summed(hospital, stage, number, rows, network, spend, hospitals), math.nan
    else:
        loss = _train(hospital, stage, number, rows, network, spend)
        state = shared_state(stage, network)
    if stage == "identity":
        hospital.save_head(network, number)
    save_state(kept, state, {"stage": stage, "round": str(number)})
    hospital.ledger.settle(row, digest(state))
    return Update(state, declared, loss)


def plan(hospital: Hospital) -> list[tuple[Stage, float, int]]:
    """(stage, sampling rate q, steps a round) of every stage this hospital takes part in."""
    sizes = {stage: len(hospital.usable(stage)) for stage in STAGES}
    everybody = hospital.settings.privacy.trust == "aggregate"  # one sigma for all hospitals
    return [(stage, *_sampling(hospital, stage, n)) for stage, n in sizes.items()
            if n or everybody]


def noise_multiplier(hospital: Hospital, stage: Stage) -> float:
    """Of a stage, for which all stages and rounds of the run together meet its epsilon.

    Of a patient who is at several hospitals, as many as linkage allows, theirs together meet it.
    """
    settings, privacy = hospital.settings, hospital.settings.privacy
    several = max(1, privacy.sites)
    steps = tuple((q, several * count * settings.stage(s).rounds, privacy.split[s])
                  for s, q, count in plan(hospital))
    return _calibrated(steps, privacy.epsilon, privacy.delta) / math.sqrt(privacy.split[stage])


def _sampling(hospital: Hospital, stage: Stage, windows: int) -> tuple[float, int]:
    """(q, steps a round) of a stage, of windows or of patients."""
    privacy, training = hospital.settings.privacy, hospital.settings.stage(stage)
    if privacy.unit == "patient":
        return sampling_of_patients(privacy.q, training)
    return sampling(windows, training)


def _spend(hospital: Hospital, stage: Stage, windows: int) -> Spend | None:
    """What the round costs; None where nothing is protected."""
    if hospital.settings.privacy.unit == "none":
        return None
    q, steps = _sampling(hospital, stage, windows)
    alone = hospital.settings.privacy.trust == "hospital"
    return Spend(q, noise_multiplier(hospital, stage), steps if alone else 1)


def _train(hospital: Hospital, stage: Stage, number: int, rows: Indices, network: nn.Module,
           spend: Spend | None) -> float:
    """Train in place; the mean loss."""
    settings, privacy = hospital.settings, hospital.settings.privacy
    local, patient = _local(hospital, stage, number, rows, network), _patients(hospital, rows)
    if spend is None:
        if stage == "identity" and settings.identity_by == "embedding":  # compares a patient's own
            q, steps = sampling_of_patients(privacy.q, settings.stage(stage))
            bare = Spend(q, 0.0, steps)
            return train_per_patient(local, patient, bare, replace(privacy, clip=_NO_CLIP),
                                     open_draws(local.seed))
        return train_plainly(local)
    if privacy.unit == "patient":
        _tell_noise(hospital, stage, number, network, spend, len(np.unique(patient)))
        state = hospital.canaries
        canaries = state.of(stage, sum(p.numel() for p in network.parameters() if p.requires_grad)
                            ) if state.count else None
        loss = train_per_patient(local, patient, spend, privacy, secret_draws(), canaries)
        if canaries:
            state.keep(stage, number, canaries)
        return loss
    return train_privately(local, spend, privacy)


def _tell_noise(hospital: Hospital, stage: Stage, number: int, network: nn.Module, spend: Spend,
                patients: int) -> None:
    """Say once a stage, in the hospital's own log, where noise will drown what is learned."""
    ratio, arithmetic = noise_over_signal(
        network, spend, spend.q * (hospital.settings.privacy.cohort or patients))
    if number == 1 and ratio > USEFUL:
        log.warning("%s: %s: noise over signal is %s; little is learned above %g. Train fewer "
                    "layers, sum over hospitals, or spend more", hospital.site, stage, arithmetic,
                    USEFUL)


def _summed(hospital: Hospital, stage: Stage, number: int, rows: Indices, network: nn.Module,
            spend: Spend, hospitals: int) -> dict[str, Tensor]:
    """The noisy sum of one step."""
    privacy, training = hospital.settings.privacy, hospital.settings.stage(stage)
    steps = sampling_of_patients(privacy.q, training)[1]
    local = _local(hospital, stage, (number - 1) // steps + 1, rows, network)
    share = share_sigma(spend.sigma, hospitals, privacy.missing)
    return noisy_sum(local, _patients(hospital, rows), spend, share, privacy, secret_draws())


def _local(hospital: Hospital, stage: Stage, number: int, rows: Indices,
           network: nn.Module) -> LocalRound:
    settings = hospital.settings
    return LocalRound(
        network, lambda i: hospital.fetch(rows[i]), hospital.loss(stage, number), len(rows),
        settings.stage(stage), number, seed_from(settings, hospital.site, stage, number),
        shift=stage != "anonymizer")


def _patients(hospital: Hospital, rows: Indices) -> Indices:
    """Whose each of the windows is."""
    return np.asarray(hospital.store.index["patient"][rows].astype(np.int64))


def _declared(hospital: Hospital, rows: Indices) -> int:
    """What the hospital weighs in the mean."""
    privacy = hospital.settings.privacy
    if privacy.unit == "patient":
        return privacy.cohort or len(np.unique(hospital.store.index["patient"][rows]))
    return len(rows)


def _kept(file: Path, row: Release) -> dict[str, Tensor]:
    """A reply that was paid for; raise BudgetError if the file is not what the ledger names."""
    try:
        state = load_state(file)
        found = digest(state)
    except (OSError, SafetensorError) as error:
        found, state = f"unreadable ({error})", {}
    if found != row.reply:
        raise BudgetError(f"kept reply {file} has hash {found}; row {row.id} of the ledger "
                          f"allows only {row.reply}: restore the file, or delete it to train "
                          "and be charged again")
    return state


# The search takes seconds and its inputs do not change during a run.
_calibrated = lru_cache(calibrate)
