"""A hospital too small for what a run asks is told so, with the numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from torch import nn

from client.feasibility import check_privacy, noise_over_signal
from common.errors import SettingsError
from common.privacy.accounting import Spend
from server.overrides import compose_settings


def store(patients, windows):
    index = {"patient": np.repeat(np.arange(patients), windows)}
    return SimpleNamespace(index=index, select=lambda part, reserved: np.arange(patients * windows))


@pytest.mark.parametrize(("words", "line"), [
    (["privacy=patient", "privacy.delta=9e-3"],
     r"delta is 0.009 and hospital x has 120 patients in training; allowed is below 1 / 120"),
    (["privacy=window", "privacy.delta=5e-3"], "has 240 windows in training"),
    (["privacy=patient", "privacy.q=0.008"],
     r"a step sees 0.008 x 120 = 0.96 of them; at least 1 is needed: q of 0.0083 or more"),
])
def test_what_says_nothing_is_refused(words, line):
    with pytest.raises(SettingsError, match=line):
        check_privacy("x", store(120, 2), compose_settings(words))


@pytest.mark.parametrize("words", [
    ["privacy=none", "privacy.delta=9e-3"], ["privacy=patient", "privacy.delta=8e-3"],
    ["privacy=patient", "privacy.q=0.009"], ["privacy=window", "privacy.delta=4e-3"],
    ["privacy=patient", "privacy.q=0.001", "privacy.trust=aggregate"]])
def test_what_fits_is_not(words):
    check_privacy("x", store(120, 2), compose_settings(words))


def test_the_arithmetic_of_noise_is_that_of_trained_weights():
    network = nn.Sequential(nn.Linear(9, 10), nn.Linear(10, 3))
    network[0].requires_grad_(False)
    ratio, said = noise_over_signal(network, Spend(0.3, 2.0, 5), 3.0)
    assert ratio == pytest.approx(2 * 33**0.5 / 3) and "sqrt(33 weights) / 3 a step = 4" in said
