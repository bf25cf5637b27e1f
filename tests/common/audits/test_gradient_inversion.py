"""Gradient inversion against known answers: exact where it must be, chance where nothing is."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from common.audits.gradient_inversion import (
    Effort,
    clipping,
    distances,
    labels_of,
    lengths,
    private_updates,
    reconstruct,
    updates,
)
from common.audits.inversion import Prior, stacked, unit
from common.audits.reconstruction import likeness
from common.errors import InputError
from common.models.classifier import Classifier
from common.models.resnet1d import ResNet1D

LENGTH = 48
QUICK = Effort(steps=120, norm=0.0, variation=0.0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(LENGTH, 4))


def resnet():
    torch.manual_seed(0)
    return Classifier(ResNet1D(4, 1), 4).eval()


def windows(count, batch, seed=0):
    x = unit(torch.randn(count, batch, 1, LENGTH, generator=seeded(seed)))
    return x, torch.randint(4, (count, batch), generator=seeded(seed + 1))


def white(count):
    prior = Prior(torch.zeros(1, 1, LENGTH), torch.ones(1, 1, LENGTH // 2 + 1))
    return stacked([prior] * count)


def correlation(x, found):
    return likeness(x[0].numpy(), found[0].numpy()).correlation


def test_updates_are_the_gradients_of_the_mean_loss():
    network, (x, y) = resnet(), windows(2, 3)
    found = updates(network, x, y)
    for t in range(2):
        loss = nn.functional.cross_entropy(network(x[t]), y[t])
        for a, b in zip(found, torch.autograd.grad(loss, list(network.parameters())), strict=True):
            torch.testing.assert_close(a[t], b, rtol=1e-4, atol=1e-6)


def test_a_linear_models_single_window_is_read_off_its_gradient():
    network, (x, y) = linear(), windows(1, 1)
    found = reconstruct(network, updates(network, x, y), y, white(1), QUICK, seeded(9))
    assert correlation(x, found).min() > 0.99


def test_a_perceptrons_batch_comes_back_in_some_order():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(LENGTH, 32), nn.Sigmoid(), nn.Linear(32, 4))
    x, y = windows(1, 3)
    effort = Effort(steps=300, norm=0.0, variation=0.0)
    found = reconstruct(network, updates(network, x, y), y, white(1), effort, seeded(9))
    assert correlation(x, found).min() > 0.9


def test_no_gradient_and_heavy_noise_give_chance():
    network, (x, y) = linear(), windows(6, 1)
    nothing = [torch.zeros_like(part) for part in updates(network, x, y)]
    noisy = private_updates(network, x, y, 1.0, 100.0, seeded(3))
    for seen in (nothing, noisy):
        found = reconstruct(network, seen, y, white(6), QUICK, seeded(9))
        own = [likeness(a, b).correlation[0] for a, b in zip(x.numpy(), found.numpy(), strict=True)]
        assert abs(np.mean(own)) < 0.25  # 1 / sqrt(6 * 48) is .06
    assert torch.equal(distances(nothing, noisy), torch.ones(6))


def test_more_noise_leaves_less():
    network, (x, y) = linear(), windows(4, 1)
    means = []
    for sigma in (0.0, 0.05, 10.0):
        seen = private_updates(network, x, y, 1.0, sigma, seeded(3))
        found = reconstruct(network, seen, y, white(4), QUICK, seeded(9))
        means.append(np.mean([likeness(a, b).correlation for a, b in
                              zip(x.numpy(), found.numpy(), strict=True)]))
    assert means[0] > 0.99 > means[1] > means[2] + 0.2 and means[1] > 0.5


def test_windows_are_clipped_as_the_hospitals_do():
    from common.privacy.window_dp import privatise

    network, (x, y) = resnet(), windows(1, 4)
    seen = private_updates(network, x, y, 0.5, 0.0, seeded())
    assert float((clipping(network, x, y, 0.5) < 1).sum()) == 4
    assert torch.equal(clipping(network, x, y, 1e6), torch.ones(1, 4))
    other = copy.deepcopy(network).train()
    module, step = privatise(other, torch.optim.SGD(other.parameters(), 1.0), sigma=0.0, clip=0.5,
                             expected_batch=4)
    nn.functional.cross_entropy(module(x[0]), y[0]).backward()
    step.pre_step()
    for part, parameter in zip(seen, other.parameters(), strict=True):
        torch.testing.assert_close(part[0], parameter.grad, rtol=1e-3, atol=1e-6)


def test_noise_has_the_standard_deviation_of_the_mechanism():
    network, (x, y) = linear(), windows(40, 2)
    noise = [a - b for a, b in zip(private_updates(network, x, y, 0.5, 3.0, seeded()),
                                   private_updates(network, x, y, 0.5, 0.0, seeded()), strict=True)]
    spread = torch.cat([part.flatten() for part in noise]).std()
    assert float(spread) == pytest.approx(3.0 * 0.5 / 2, rel=0.05)  # over a batch of 2
    assert float(lengths(private_updates(network, x, y, 0.5, 0.0, seeded())).max()) <= 0.5001


@given(st.integers(0, 10_000), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_labels_are_read_from_the_last_bias(seed, batch):
    logits = torch.randn(batch, 4, generator=seeded(seed))
    label = torch.randint(4, (batch,), generator=seeded(seed + 1))
    p = logits.softmax(1)
    bias = (p - nn.functional.one_hot(label, 4)).mean(0)
    assert labels_of(bias, p.mean(0), batch).tolist() == sorted(label.tolist())
    if batch == 1:  # whatever is believed of the probabilities
        assert labels_of(bias, torch.ones(4), 1).tolist() == label.tolist()


def test_an_empty_batch_has_no_label():
    with pytest.raises(InputError, match="batch is 0"):
        labels_of(torch.zeros(4), torch.zeros(4), 0)


def test_clipped_batches_are_inverted_with_their_clipping():
    """Two windows of very different gradients: unweighted, the guess cannot fit the sum."""
    network, (x, y) = linear(), windows(1, 2)
    x[0, 1] *= 0.05
    clipped = private_updates(network, x, y, 0.2, 0.0, seeded())
    weight = clipping(network, x, y, 0.2)
    assert float(weight.max() / weight.min()) > 2
    assert float(distances(updates(network, x, y, weight), clipped)) < 1e-5
    assert float(distances(updates(network, x, y), clipped)) > 1e-3
