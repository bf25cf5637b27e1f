"""The patient-level step survives an audit of its claim, and broken versions of it do not.

The worst case: one parameter, every patient sampled, and one patient whose gradient, ten times
the clip, is all there is to see. A small claim at a large delta is what 20,000 draws can test:
the chance of a false alarm is .001, and each broken version is caught by a wide margin.
"""

import pytest
import torch
from torch import nn

from common.privacy.accounting import Spend, calibrate, epsilon
from common.privacy.lower_bound import epsilon_from_tails
from common.privacy.patient_dp import PatientSum

CLIP, DELTA, DRAWS, CONFIDENCE = 0.7, 1e-2, 20_000, 0.999
SIGMA = calibrate([(1.0, 1, 1.0)], 1.0, DELTA)


def steps(weights: int, clip: float, sigma: float, gradient: float | None) -> torch.Tensor:
    """Release one step of a network of so many free weights, with or without the patient."""
    network = nn.Module()
    network.weight = nn.Parameter(torch.zeros(weights))
    total = PatientSum(network, clip)
    if gradient is not None:
        total.add(gradient * network.weight)  # of one weight: the mean's gradient is his
    total.release(sigma, expected=1.0)
    assert network.weight.grad is not None
    return network.weight.grad


def bound(sigma: float, clip: float = CLIP, rounds: int = 1) -> float:
    """Audit so many rounds with an optimal test, the sum of what was released.

    Noise is the same for each weight, so one step of many weights gives the noise of all draws.
    """
    move = float(steps(1, clip, 0.0, 10 * CLIP))
    inside, outside = (steps(DRAWS * rounds, clip, sigma, None).reshape(DRAWS, rounds)
                       for _ in range(2))
    return epsilon_from_tails((inside + move).sum(1).numpy(), outside.sum(1).numpy(), DELTA,
                              CONFIDENCE)


def claim(rounds: int = 1) -> float:
    return epsilon([Spend(1.0, SIGMA, rounds)], DELTA)


def test_the_honest_step_stays_below_its_claim() -> None:
    assert 0.3 < bound(SIGMA) < claim() <= 1.0


def test_half_the_noise_is_caught() -> None:
    assert bound(SIGMA / 2) > claim()


def test_a_gradient_that_is_not_clipped_is_caught() -> None:
    unclipped = bound(SIGMA / 10, clip=10 * CLIP)  # the same noise, and room for all of it
    assert unclipped > claim()


@pytest.mark.parametrize("rounds", [8])
def test_an_epsilon_restarted_each_round_is_caught(rounds: int) -> None:
    found = bound(SIGMA, rounds=rounds)
    assert claim() < found < claim(rounds)
