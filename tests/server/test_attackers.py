"""The auditor's networks learn what can be learnt, and an interrupted audit goes on with them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from common.config import Audit, Settings
from common.models.classifier import build
from common.models.inception_time import InceptionTime
from common.protocol import STAGES
from server.attackers import ARCHITECTURES, Attacker, train_attacker
from server.bundles import Bundles


def made(n=64):
    """Two patients of different frequency, half of their windows for training."""
    patient = np.arange(n) % 2
    time = np.linspace(0, 8, 256)
    phase = np.random.default_rng(0).random((n, 1)) * 6
    waves = np.sin(time * (3 + 6 * patient[:, None]) + phase) / 2 + 0.5
    clean = waves[:, None].astype(np.float32)
    zero = np.zeros(n, dtype=np.int64)
    part = np.where(np.arange(n) < n // 2, 0, 2)
    return Bundles(clean, 1 - clean, patient, patient, zero, part, patient, patient, zero,
                   zero.astype(float), np.full(n, 15, np.uint8), zero.astype(bool), {}, [])


def settings(steps):
    return Settings(threads=1, device="cpu", audit=Audit(steps=steps, batch=16, width=4))


def weights(network):
    return torch.cat([p.detach().flatten() for p in network.parameters()])


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_attacker_learns_and_is_kept(tmp_path, name):
    bundles, kept = made(), tmp_path / "clean.safetensors"
    attacker = train_attacker(bundles, bundles.clean, settings(60), kept, architecture=name)
    test = bundles.rows("test")
    hit = attacker.answers(bundles.clean[test])["reid"].argmax(1) == bundles.patient[test]
    assert hit.mean() > 0.9
    again = train_attacker(bundles, bundles.clean, settings(1), kept,  # loads, does not train
                           architecture=name)
    assert torch.equal(weights(attacker), weights(again))


def test_who_retrains_goes_on_from_the_clean_attacker(tmp_path):
    bundles, slow = made(), replace(settings(2), audit=Audit(steps=2, batch=16, width=4, lr=1e-9))
    clean = train_attacker(bundles, bundles.clean, settings(5), tmp_path / "clean.safetensors")
    near = train_attacker(bundles, bundles.released, slow, tmp_path / "a.safetensors", start=clean)
    far = train_attacker(bundles, bundles.released, slow, tmp_path / "b.safetensors")
    assert weights(near).numpy() == pytest.approx(weights(clean).numpy(), abs=1e-4)
    assert not np.allclose(weights(far), weights(clean), atol=1e-2)


def test_only_the_auditors_networks_keep_batch_statistics():
    def batch_norms(network):
        return [m for m in network.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]

    assert batch_norms(Attacker(4, 1, 3)) and batch_norms(InceptionTime(4, 1))
    for stage in STAGES:
        assert not batch_norms(build(stage, Settings(), 1, 2, 0))
