"""Under privacy per patient no stage's loss lets one patient move another's gradient."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from client import charged_round
from client.hospital import Hospital
from client.ledger import Ledger
from client.node import window_settings
from common.ecg.hospital_file import load_hospital
from common.ecg.windows import prepare
from common.models.classifier import shared_state
from common.models.verifier import Verifier, verification_logits
from common.privacy.accounting import Spend, epsilon
from common.privacy.patient_dp import largest_move
from common.protocol import CLASSIFIER_STAGES, STAGES
from server.overrides import compose_settings
from tests.small import NETWORKS

CLIP = 1e-3  # so small that each patient's gradient reaches it


@pytest.fixture(scope="module")
def hospital(consortium: Path, tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    folder = tmp_path_factory.mktemp("hospital")
    settings = compose_settings([*NETWORKS, "privacy=patient", "privacy.public=2", "privacy.q=0.5",
                                 "reserved=0"])
    store = prepare(load_hospital(consortium / "incartdb" / "hospital.yaml"), folder / "stores",
                    window_settings(settings))
    made = Hospital("incartdb", store, folder, Ledger(folder / "ledger"), settings, "run")
    for stage in CLASSIFIER_STAGES:
        made.freeze(stage, shared_state(stage, made.network(stage)))
    return made


@pytest.mark.parametrize("stage", STAGES)
def test_removing_a_patient_moves_the_sum_by_at_most_the_clip(hospital, stage) -> None:
    rows = hospital.usable(stage)
    patient = hospital.store.index["patient"][rows]
    people = [hospital.fetch(rows[patient == who][:3]) for who in np.unique(patient)]
    assert len(people) == 3
    move = largest_move(hospital.network(stage), people, hospital.loss(stage, 1), CLIP)
    assert 0.9 * CLIP < move <= CLIP * (1 + 1e-4)


def test_the_identity_network_has_no_row_for_anybody(hospital) -> None:
    network = hospital.network("identity")
    assert isinstance(network, Verifier)
    assert {name.split(".")[0] for name in shared_state("identity", network)} == {
        "backbone", "projection"}
    x = hospital.fetch(hospital.usable("identity")[:4])["x"]
    torch.testing.assert_close(network(x).norm(dim=1), torch.ones(4))


def test_an_own_window_is_told_from_public_ones() -> None:
    query = torch.eye(4)[:2]
    logits = verification_logits(query, query, torch.eye(4)[2:])
    assert logits.argmax(1).tolist() == [0, 0] and logits.shape == (2, 3)
    assert logits[0].tolist() == [pytest.approx(10.0), 0.0, 0.0]


def test_a_private_round_is_never_drawn_by_seed(hospital, monkeypatch) -> None:
    monkeypatch.setattr(charged_round, "open_draws", None)  # would be called in vain
    state = shared_state("sex", hospital.network("sex"))
    update = charged_round.train_round(hospital, "sex", 1, state)
    assert update.examples == 3
    summed = replace(hospital.settings.privacy, trust="aggregate")
    monkeypatch.setattr(hospital, "settings", replace(hospital.settings, privacy=summed))
    assert charged_round.train_round(hospital, "sex", 2, state, 2).examples == 3


def test_linked_patients_meet_the_target_over_all_their_hospitals(hospital, monkeypatch) -> None:
    privacy = replace(hospital.settings.privacy, sites=3)
    monkeypatch.setattr(hospital, "settings", replace(hospital.settings, privacy=privacy))
    spends = [Spend(q, charged_round.noise_multiplier(hospital, stage),
                    3 * steps * hospital.settings.stage(stage).rounds)
              for stage, q, steps in charged_round.plan(hospital)]
    assert 7.9 < epsilon(spends, privacy.delta) <= 8
