"""PrivECG hardly changes a signal, and hides little even where it is made to distort it much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from common.anonymizers.contract import Effort
from common.anonymizers.privecg import PrivEcg, discriminator_loss, r_waves
from common.audits.utility import prd
from common.ecg.beats import no_beats


@pytest.fixture(scope="module")
def eager(hospital):
    """Privacy weighs far more than in the source."""
    method = PrivEcg(privacy=10.0)
    method.fit(hospital.train, hospital.frozen, Effort(100, batch=16))
    return method


def test_by_default_patient_and_signal_stay(hospital, eager):
    x, patient = hospital.test.x, hospital.test.patient
    method = PrivEcg()
    method.fit(hospital.train, hospital.frozen, Effort(20))
    released = method.anonymize(hospital.test, seed=1)
    assert released.shape == x.shape and released.dtype == np.float32
    assert 0 < prd(x, released, patient).value < 1
    for stage in ("identity", "sex", "diagnosis"):
        assert hospital.accuracy(stage, released) == pytest.approx(
            hospital.accuracy(stage, x), abs=0.03)


def test_a_large_weight_buys_distortion_and_little_privacy(hospital, eager):
    x, patient = hospital.test.x, hospital.test.patient
    released = eager.anonymize(hospital.test)
    assert prd(x, released, patient).value > 5
    assert hospital.accuracy("identity", released) > 0.6 * hospital.accuracy("identity", x)


def test_a_release_is_drawn_anew(hospital, eager):
    some, state = hospital.test.select(np.arange(8)), torch.get_rng_state()
    first = eager.anonymize(some, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(first, eager.anonymize(some, seed=1))
    assert not np.array_equal(first, eager.anonymize(some, seed=2))


def test_r_waves_are_weighed_apart(hospital):
    some = hospital.train.select(np.arange(3))
    mask, (times, _) = r_waves(some), some.beats.of(1)
    time = np.arange(800) / some.rate
    near = np.abs(time[:, None] - np.rint(times * some.rate) / some.rate).min(1) < 0.0501
    assert np.array_equal(mask[1], near) and 0 < mask[1].mean() < 0.3
    assert not r_waves(replace(some, beats=no_beats(3))).any()

    method, x = PrivEcg(privacy=0.0, reconstruction=100.0), torch.zeros(3, 1, 800)
    blind = nn.Sequential(nn.Flatten(), nn.Linear(800, 1))
    peaks = torch.from_numpy(mask)
    at = [method.generator_loss(blind, x, x + where[:, None], peaks, 0.5).item()
          for where in (peaks, ~peaks)]
    assert at == pytest.approx([mask.mean(), 100 * (1 - mask.mean())], rel=1e-4)


def test_the_discriminator_learns_known_sexes_of_true_windows_alone():
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 1, bias=False))
    network[1].weight.data.fill_(1.0)
    x, none = torch.full((2, 1, 4), 0.5), torch.zeros(2, 1, 4)  # logits 2 and 0
    told = float(discriminator_loss(network, x, none, torch.tensor([1, 1]), 0.5))
    wrong = float(discriminator_loss(network, x, none, torch.tensor([0, 0]), 0.5))
    unknown = float(discriminator_loss(network, x, none, torch.tensor([-1, -1]), 0.5))
    assert wrong - told == pytest.approx(2.0, rel=1e-4)
    assert unknown == pytest.approx(np.log(2), rel=1e-4)  # what a released window costs at best
    assert float(discriminator_loss(network, x, x, torch.tensor([-1, -1]), 0.5)) > unknown


def test_several_leads_and_unknown_sex(hospital):
    some = hospital.train.select(np.arange(8))
    some = replace(some, x=np.concatenate([some.x, 1 - some.x], 1), sex=np.full(8, -1))
    method = PrivEcg()
    method.fit(some, hospital.frozen, Effort(2, batch=4))
    assert method.anonymize(some).shape == (8, 2, 800)
