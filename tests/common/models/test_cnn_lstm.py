"""The CNN-LSTM reads the whole window, window by window, and in order."""

from __future__ import annotations

import pytest
import torch

from common.models.cnn_lstm import CNNLSTM


def network(leads: int = 1) -> CNNLSTM:
    torch.manual_seed(0)
    made = CNNLSTM(4, leads)
    made(torch.rand(8, leads, 400))  # running statistics of something
    return made.eval()


@pytest.mark.parametrize(("leads", "length"), [(1, 400), (3, 801), (1, 2000)])
def test_features_come_from_every_sample(leads, length):
    made, x = network(leads), torch.rand(2, leads, length, requires_grad=True)
    features = made(x)
    assert features.shape == (2, made.features) == (2, 32)
    features.square().sum().backward()
    reached = (x.grad != 0).float().mean((0, 1))  # (L,)
    assert reached[: length - 16].mean() > 0.9 and reached[-40:-16].any()


def test_no_window_changes_anothers_features():
    made, x = network(), torch.rand(3, 1, 400)
    assert torch.allclose(made(x)[:1], made(x[:1]), atol=1e-6)


def test_what_came_early_changes_what_a_late_wave_means():
    # Convolutions and an average alone would give distant changes effects that add.
    made, x = network().double(), torch.rand(1, 1, 2000, dtype=torch.float64)
    early, late = torch.zeros_like(x), torch.zeros_like(x)
    early[..., 400:440], late[..., 560:600] = 0.5, 0.5  # a step sees 101 samples
    with torch.no_grad():
        together = made(x + early + late) - made(x)
        apart = made(x + early) + made(x + late) - 2 * made(x)
    assert (together - apart).abs().max() > 1e-8
