"""What a round draws: the same by seed without privacy, and never by seed with it."""

import numpy as np
import pytest
import torch
from torch import nn

from client.local_round import (
    LocalRound,
    noisy_sum,
    secret_draws,
    train_per_patient,
    train_plainly,
    train_privately,
)
from common.config import Privacy, Training
from common.privacy.accounting import Spend
from common.privacy.canaries import Canaries
from common.privacy.noise import GAUSSIAN


def seen(way, shift=True):
    """The windows as the loss of one whole-batch step sees them."""
    torch.manual_seed(0)
    x = torch.rand(6, 1, 64)
    windows = []

    def loss(network, batch):
        windows.append(batch["x"].clone())
        return network(batch["x"]).flatten(1).square().mean(1)

    local = LocalRound(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), lambda i: {"x": x[i]}, loss,
                       6, Training(rounds=1, epochs=1, batch=6), 1, 7, shift)
    way(local)
    return x, windows[0]


def privately(local):
    train_privately(local, Spend(1.0, 1.0, 1), Privacy(unit="window"))


def test_shifts_are_by_seed_without_privacy():
    _, first = seen(train_plainly)
    _, second = seen(train_plainly)
    assert torch.equal(first, second)


def test_shifts_of_a_private_round_are_secret():
    _, first = seen(privately)
    _, second = seen(privately)
    assert not torch.equal(first, second)
    assert torch.equal(first.sort(dim=2).values, second.sort(dim=2).values)  # the same windows


@pytest.mark.parametrize("way", [train_plainly, privately])
def test_a_round_without_shifts_sees_the_windows_as_they_are(way):
    x, first = seen(way, shift=False)
    assert torch.equal(first.flatten(1).sort(0).values, x.flatten(1).sort(0).values)


def test_sums_of_hospitals_are_the_sum_over_their_patients():
    torch.manual_seed(0)
    x, patient = torch.rand(9, 1, 16), np.repeat([0, 1, 2], 3)
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

    def sum_of(rows):
        local = LocalRound(network, lambda i: {"x": x[rows[i]]},
                           lambda net, b: net(b["x"]).square().mean(1), len(rows),
                           Training(), 1, 0, False)
        return noisy_sum(local, patient[rows], Spend(1.0, 5.0, 1), 0.0,
                         Privacy(unit="patient", clip=0.1), secret_draws())

    whole = sum_of(np.arange(9))
    parts = [sum_of(np.arange(3)), sum_of(np.arange(3, 9)), sum_of(np.arange(0))]
    for name, total in whole.items():
        torch.testing.assert_close(sum(part[name] for part in parts), total)
    assert not any(part.any() for part in parts[2].values())


def test_a_share_of_noise_is_a_share():
    network = nn.Linear(100, 100)
    local = LocalRound(network, lambda i: {}, lambda net, b: b["x"], 0, Training(), 1, 0, False)
    found = noisy_sum(local, np.zeros(0, np.int64), Spend(0.5, 4.0, 1), 2.0,
                      Privacy(unit="patient", clip=0.5), secret_draws())
    assert float(found["weight"].std()) == pytest.approx(1.0, rel=0.05)  # share times clip


def test_a_patient_gives_a_step_at_most_so_many_windows():
    sizes = []

    def loss(network, batch):
        sizes.append(len(batch["x"]))
        return network(batch["x"]).square().mean(1)

    x = torch.rand(12, 4)
    local = LocalRound(nn.Linear(4, 1), lambda i: {"x": x[i]}, loss, 12, Training(), 1, 0, False)
    patient = np.repeat([0, 1, 2], [1, 4, 7])
    spend, privacy = Spend(1.0, 0.0, 2), Privacy(unit="patient", windows=3)
    train_per_patient(local, patient, spend, privacy, secret_draws())
    assert sizes == [1, 3, 3] * 2
    noisy_sum(local, patient, spend, 0.0, privacy, secret_draws())
    assert sizes[6:] == [1, 3, 3]


@pytest.mark.parametrize("way", ["patient", "window", "sum"])
def test_noise_comes_from_where_the_settings_say(way, monkeypatch):
    asked = []
    for name in ("secure", "fast"):
        monkeypatch.setitem(GAUSSIAN, name, lambda shape, device, name=name: (
            asked.append(name), torch.zeros(tuple(shape)))[1])
    x, spend, patient = torch.rand(4, 1, 4), Spend(1.0, 1.0, 1), np.arange(4)
    for noise in ("fast", "secure"):
        network = nn.Sequential(nn.Flatten(), nn.Linear(4, 1))
        local = LocalRound(network, lambda i: {"x": x[i]},
                           lambda net, b: net(b["x"]).square().mean(1), 4, Training(), 1, 0, False)
        privacy = Privacy(unit="patient", noise=noise)
        if way == "patient":
            train_per_patient(local, patient, spend, privacy, secret_draws())
        elif way == "window":
            train_privately(local, spend, privacy)
        else:
            noisy_sum(local, patient, spend, 1.0, privacy, secret_draws())
    assert list(dict.fromkeys(asked)) == ["fast", "secure"]


def test_canaries_see_what_left(monkeypatch):
    """Without patients the sum is the canaries' own: those that are there, and nobody else."""
    x = torch.zeros(0, 4)
    local = LocalRound(nn.Linear(4, 2), lambda i: {"x": x[i]}, lambda net, b: b["x"], 0,
                       Training(), 1, 0, False)
    included = np.array([True, False, True, False])
    canaries = Canaries(included, np.array([1.0, 1.0, -1.0, -1.0]), np.array([3, 0, 9, 5]),
                        np.zeros(4))
    train_per_patient(local, np.zeros(0, np.int64), Spend(1.0, 1e-3, 6),
                      Privacy(unit="patient", clip=0.5), secret_draws(), canaries)
    np.testing.assert_allclose(canaries.score * 1e-3**2, 6 * included, atol=0.05)


def test_secret_draws_are_no_seeds():
    drawn = []
    for _ in range(2):
        torch.manual_seed(0)
        draws = secret_draws()
        drawn.append((float(torch.rand(())), draws.generator.random(),
                      draws.chosen(64, 0.5).tolist()))
    assert all(a != b for a, b in zip(*drawn, strict=True))
