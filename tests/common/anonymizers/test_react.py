"""An agent per patient learns where noise pays; what that buys is measured."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from common.anonymizers.contract import Effort
from common.anonymizers.react import (
    GROUP,
    LARGEST,
    LEAST,
    SEGMENTS,
    Game,
    React,
    groups,
    learned_scales,
    segment_features,
)
from common.audits.utility import prd
from common.training import predict


def few(hospital, patients=1, each=10):
    """Some test windows of some patients."""
    patient = hospital.test.patient
    rows = [np.flatnonzero(patient == name)[:each] for name in np.unique(patient)[:patients]]
    return hospital.test.select(np.concatenate(rows))


def game(hospital, privacy=10.0, distortion=0.5, x=None):
    x = few(hospital).x if x is None else x
    return Game(x, hospital.frozen, privacy, distortion, np.random.default_rng(0))


def fitted(hospital, **settings):
    method = React(**settings)
    method.fit(hospital.train, hospital.frozen, Effort(1))
    return method


def test_groups_hold_windows_of_one_patient():
    patient = np.array([7] * 40 + [3] * 5 + [7] * 2)
    found = groups(patient)
    assert sorted(np.concatenate(found).tolist()) == list(range(47))
    assert all(len(set(patient[rows])) == 1 and len(rows) <= GROUP for rows in found)
    assert [len(rows) for rows in found] == [5, 14, 14, 14]
    assert groups(patient[:0]) == []


def test_noise_has_the_scale_of_its_segment_on_every_lead(hospital):
    x = np.random.default_rng(0).random((300, 2, 800), dtype=np.float32)
    two_leads = game(hospital, x=x[:, :1])
    two_leads.x = x
    action = np.full((300, SEGMENTS), -1, np.float32)
    action[:, 3], action[:, 9] = 1, 0
    change = (two_leads.play(action) - x).reshape(300, 2, SEGMENTS, -1).std((0, 3))  # (2, 20)
    expected = np.full((2, SEGMENTS), LEAST)
    expected[:, 3], expected[:, 9] = LARGEST, (LEAST * LARGEST) ** 0.5
    assert change == pytest.approx(expected, rel=0.03)
    assert segment_features(x).shape == (300, 2 * 3 * SEGMENTS)


def test_the_reward_pays_for_privacy_and_charges_for_the_rest(hospital):
    silent, loud = (np.full((10, SEGMENTS), a, np.float32) for a in (-1, 1))
    for privacy, distortion, better in ((50, 0, loud), (0, 0, silent), (0, 10, silent)):
        played = game(hospital, privacy, distortion)
        worse = silent if better is loud else loud
        assert played.reward(better).mean() > played.reward(worse).mean() + 0.1
    privacy = game(hospital, 1, 0).reward(loud) - game(hospital, 0, 0).reward(loud)
    assert privacy.max() <= 1 + 1e-5  # however wrong the attackers are


def test_what_is_learned_pays_more_than_what_an_agent_starts_with(hospital, capfd):
    played = game(hospital)
    scales = learned_scales(played, 0)
    assert scales.shape == (10, SEGMENTS) and abs(scales).max() <= 1
    judge = game(hospital)

    def worth(action):
        return np.mean([judge.reward(action) for _ in range(20)])

    assert worth(scales) > worth(np.zeros_like(scales)) + 0.3
    assert capfd.readouterr() == ("", "")


def test_a_release_is_repeatable_and_leaves_the_process_its_randomness(hospital):
    data, method = few(hospital, 1, 5), fitted(hospital)
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    expected = torch.rand(1), np.random.rand(), random.random()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    released = method.anonymize(data, seed=1)
    assert (torch.rand(1), np.random.rand(), random.random()) == expected
    assert released.shape == data.x.shape and released.dtype == np.float32
    assert np.array_equal(released, method.anonymize(data, seed=1))
    assert not np.array_equal(released, method.anonymize(data, seed=2))


def test_it_needs_its_networks(hospital):
    with pytest.raises(RuntimeError, match="fit first"):
        React().anonymize(few(hospital))


def test_it_hides_some_and_spends_less_where_distortion_weighs_more(hospital):
    data = few(hospital, 2, 12)

    def known(x):
        return np.mean(predict(hospital.frozen.identity, x).argmax(1).numpy() == data.identity)

    released = fitted(hospital, privacy=50.0).anonymize(data)
    assert known(released) < known(data.x) - 0.1
    one = few(hospital, 1, 12)
    frugal = fitted(hospital, privacy=50.0, distortion=250.0).anonymize(one)
    assert prd(one.x, frugal, one.patient).value < 0.7 * prd(
        one.x, released[:12], one.patient).value
