"""The margin is ArcFace's, and training makes windows of one person near."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from common.audits.matching import match
from common.audits.reidentification import identification_rate
from common.config import Audit, Settings
from server.metric_attacker import MetricAttacker, train_metric
from tests.server.attacks.conftest import made, marked


def test_the_own_patients_angle_is_widened(monkeypatch):
    attacker = MetricAttacker(4, 1, 2)
    with torch.no_grad():
        attacker.direction.copy_(torch.eye(2, 128))
    monkeypatch.setattr(attacker, "forward", lambda x: x)
    x = torch.eye(2, 128)[:1]
    own, other = attacker.loss(x, torch.tensor([0])), attacker.loss(x, torch.tensor([1]))
    near, far = 16 * math.cos(0.2), 16 * math.cos(math.pi / 2 + 0.2)
    assert own.item() == pytest.approx(math.log1p(math.exp(-near)), abs=1e-3)
    assert other.item() == pytest.approx(math.log1p(math.exp(16 - far)), abs=1e-3)


def test_training_finds_a_planted_marker_that_no_random_network_sees(tmp_path):
    bundles, found = made(marked), []
    for steps in (1, 200):
        settings = Settings(threads=1, device="cpu", audit=Audit(steps=steps, batch=16, width=4))
        attacker = train_metric(bundles, bundles.released, settings,
                                tmp_path / f"{steps}.safetensors")
        train, test = bundles.rows("train"), bundles.rows("test")
        vectors = attacker.embed(bundles.released)
        found.append(identification_rate(match(vectors[train], bundles.patient[train],
                                               vectors[test], bundles.patient[test])).value)
    assert found[0] < 0.8 and found[1] > 0.9


def test_who_retrains_knows_what_was_not_released_as_nobody(tmp_path):
    bundles = made(marked)
    released = bundles.released.copy()
    released[::2] = np.nan
    settings = Settings(threads=1, device="cpu", audit=Audit(steps=4, batch=16, width=4))
    attacker = train_metric(replace(bundles, released=released), released, settings,
                            tmp_path / "m.safetensors")
    assert np.isfinite(attacker.embed(bundles.released)).all()
