"""Canaries in a small mechanism: a right account is not refuted, a wrong one is."""

import numpy as np
import pytest
import torch

from common.errors import InputError
from common.privacy.accounting import Spend, epsilon
from common.privacy.canaries import Canaries, draw, draw_weights, guessed
from common.privacy.lower_bound import epsilon_lower_bound

COUNT, Q, STEPS, DELTA = 2000, 0.5, 20, 1e-5


def proved(sigma: float, clip: float = 1.0, times: float = 1.0) -> float:
    """The bound from a mechanism of nothing but canaries, whose noise is `times` what it says."""
    included, sign = draw(COUNT)
    canaries = Canaries(included, sign, draw_weights(COUNT, 3 * COUNT), np.zeros(COUNT))
    for _ in range(STEPS):
        total = torch.zeros(3 * COUNT)
        canaries.add(total, Q, clip)
        total += times * sigma * clip * torch.randn(3 * COUNT)
        canaries.see(total, sigma, clip)
    return epsilon_lower_bound(*guessed(canaries.score, included), COUNT, DELTA, 0.999)


def test_the_bound_is_below_the_account_and_not_far():
    torch.manual_seed(0)
    claimed = epsilon([Spend(Q, 3.0, STEPS)], DELTA)
    assert 0.1 * claimed < proved(3.0) < claimed


def test_a_tenth_of_the_noise_is_caught():
    torch.manual_seed(0)
    assert proved(6.0, times=0.1) > epsilon([Spend(Q, 6.0, STEPS)], DELTA)


def test_the_clip_is_no_part_of_it():
    torch.manual_seed(0)
    assert proved(1.0, clip=1e-3) > 1.0


def test_nobody_is_on_anothers_weight():
    assert len(set(draw_weights(50, 60).tolist())) == 50
    with pytest.raises(InputError, match="canaries is 61; at most 60"):
        draw_weights(61, 60)


def test_coins_are_fair_and_no_seeds():
    np.random.seed(0)
    one, sign = draw(10_000)
    np.random.seed(0)
    two, _ = draw(10_000)
    assert abs(one.mean() - 0.5) < 0.03 and abs(sign.mean()) < 0.06 and (one != two).any()


def test_a_tenth_at_each_end_is_guessed():
    score, included = np.arange(20.0), np.arange(20) >= 10
    assert guessed(score, included) == (4, 4)
    assert guessed(-score, included) == (0, 4)
