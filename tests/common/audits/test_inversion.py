"""Model inversion finds what is planted in the weights, and nothing where nothing is."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from common.audits.inversion import (
    Effort,
    Prior,
    descend,
    in_rhythm,
    invert,
    margin,
    prior_of,
    random_onsets,
    rotated,
    stacked,
    unit,
    variation,
)
from common.audits.reconstruction import correlations

LENGTH = 64


def waves(n, frequency, seed=0):
    phase = np.random.default_rng(seed).random((n, 1)) * 2 * np.pi
    time = np.arange(LENGTH) * 2 * np.pi / LENGTH
    return torch.tensor(np.sin(frequency * time + phase)[:, None], dtype=torch.float32)


def flat_prior(rows):
    return Prior(torch.zeros(rows, 1, LENGTH), torch.ones(rows, 1, LENGTH // 2 + 1))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_prior_draws_signals_of_the_examples_spectrum():
    prior = prior_of(waves(20, 5), aligned=False)
    drawn = prior.signal(torch.randn(200, 1, LENGTH, generator=seeded()))
    power = torch.fft.rfft(drawn).abs().square().mean((0, 1))
    assert power.argmax() == 5 and power[5] / power.sum() > 0.999
    expected = torch.fft.rfft(waves(20, 5)).abs().square().mean((0, 1))[5]
    assert float(power[5]) == pytest.approx(float(expected), rel=0.2)


def test_the_mean_of_aligned_examples_has_their_shape_and_of_others_none():
    beats = waves(1, 2).repeat(4, 1, 1)
    assert torch.allclose(prior_of(beats, aligned=True).signal(torch.zeros(1, 1, LENGTH)),
                          beats[:1], atol=1e-6)
    assert float(prior_of(beats, aligned=False).mean.std()) < 1e-6


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_unit_spans_zero_to_one_and_variation_is_of_steps(seed):
    x = torch.randn(3, 2, 40, generator=seeded(seed)) * 7 + 3
    y = unit(x)
    assert torch.allclose(y.amin(2), torch.zeros(3, 2)) and torch.allclose(y.amax(2),
                                                                         torch.ones(3, 2))
    assert float(variation(torch.arange(5.0)[None, None])) == 1.0
    assert torch.isfinite(unit(torch.ones(1, 1, 5))).all()


def test_descend_reaches_the_minimum_of_each_row():
    goal = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    found = descend(lambda z: (z - goal).square().sum(1), torch.zeros(2, 2), 300, 0.1)
    assert torch.allclose(found, goal, atol=1e-2)


def test_a_beat_is_repeated_where_it_should_be_and_never_wraps():
    beat = torch.zeros(1, 1, 20)
    beat[..., 10] = 1.0
    x = in_rhythm(beat, torch.tensor([-8, 15, 45, 200]), LENGTH)
    assert torch.nonzero(x[0, 0] > 0.5).flatten().tolist() == [2, 25, 55]
    onsets = random_onsets(100, 8.0, seeded())
    steps = onsets.diff().float()
    assert onsets[0] < 0 and onsets[-1] >= 800 - 110 and float(steps.min()) >= 54
    assert float(steps.max()) <= 110


def test_what_is_planted_in_the_weights_is_found():
    """Each class is a matched filter of its own template; the prior is white."""
    templates = torch.randn(3, 1, LENGTH, generator=seeded(1))
    network = nn.Sequential(nn.Flatten(), nn.Linear(LENGTH, 3))
    with torch.no_grad():
        network[1].weight.copy_(templates.flatten(1))
        network[1].bias.zero_()

    def loss(x, which):
        return margin(network(x), which)

    effort = Effort(steps=60, norm=1.0, variation=0.0)
    found = invert(loss, unit, flat_prior(3), effort, seeded())
    like = correlations(found.numpy(), templates.numpy())[0]
    assert np.diag(like).min() > 0.5
    assert (like.argmax(1) == np.arange(3)).all()
    assert (like - np.diag(np.diag(like))).max() < 0.2


def test_a_model_that_knows_nobody_gives_nothing():
    templates = torch.randn(3, 1, LENGTH, generator=seeded(1))
    found = invert(lambda x, which: 0 * x.flatten(1).sum(1), unit, flat_prior(3), Effort(steps=20),
                   seeded())
    assert np.abs(correlations(found.numpy(), templates.numpy())[0]).max() < 0.5


def test_the_models_own_answer_picks_the_start():
    """Two minima; only from one side is the good one reached."""
    def loss(x, which):
        level = x.mean((1, 2))
        return (level.square() - 1).square() - 0.3 * level

    prior = Prior(torch.zeros(4, 1, 1), 3 * torch.ones(4, 1, 1))
    one = invert(loss, lambda x: x, prior, Effort(60, 0.1, 1, 0.0, 0.0), seeded(3))
    many = invert(loss, lambda x: x, prior, Effort(60, 0.1, 8, 0.0, 0.0), seeded(3))
    assert (one < 0).any() and (many > 0).all()


def test_the_margin_is_the_lead_of_the_others():
    logits = torch.tensor([[2.0, -1.0], [0.0, 5.0]])
    assert torch.allclose(margin(logits, torch.tensor([0, 0])), torch.tensor([-3.0, 5.0]))


def test_rotations_are_the_same_window_of_another_moment():
    x = waves(2, 3)
    turned = rotated(x, seeded(5))
    assert correlations(x.numpy(), turned.numpy(), LENGTH)[0][0, 0] == pytest.approx(1, abs=1e-4)
    assert not torch.allclose(turned, unit(x))


def test_priors_are_stacked_row_by_row():
    both = stacked([prior_of(waves(5, 2), False), prior_of(waves(5, 9), False)])
    assert both.gain[:, 0].argmax(1).tolist() == [2, 9]
