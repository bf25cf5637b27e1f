"""What a round draws: the same by seed without privacy, and never by seed with it."""

import pytest
import torch
from torch import nn

from client.local_round import LocalRound, train_plainly, train_privately
from common.config import Training
from common.privacy.accounting import Spend


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
    train_privately(local, Spend(1.0, 1.0, 1), 1.0)


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
