"""Canary patients: what one training run lets an attacker prove about its own epsilon.

Each canary sends, whenever the sampling draws him, the worst gradient that clipping allows, all of
it on one weight that is his alone. A fair coin decides whether he is there at all. Whoever sees the
noisy sums guesses the coins, and the number of right guesses bounds epsilon from below.
Source: Steinke, Nasr & Jagielski (2023), arXiv:2305.08846, with the gradient canaries of Nasr et
al. (2023), arXiv:2302.07956, section 4.

They say nothing of a real patient and cost no privacy, since they depend on nobody's data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from common.errors import InputError
from common.privacy.lower_bound import guesses_from_scores
from common.privacy.noise import poisson_indices

_GUESSED = 0.1  # share of the canaries called "in", and of those called "out", fixed in advance


@dataclass
class Canaries:
    """The canaries of one stage, and what the noisy sums say of each.

    Args:
        included: the coins, [m] of bool; as secret as the noise until training has ended.
        sign: of each one's gradient, [m] of 1 or -1.
        weight: which of the d trained weights is whose, [m], each once.
        score: grows with the evidence that a canary is in, [m].
    """

    included: NDArray[np.bool_]
    sign: NDArray[np.float64]
    weight: NDArray[np.int64]
    score: NDArray[np.float64]

    def add(self, total: Tensor, q: float, clip: float) -> None:
        """Add those that are there and drawn to a clipped sum (d,)."""
        drawn = poisson_indices(len(self.included), q)
        drawn = drawn[self.included[drawn]]
        total[torch.from_numpy(self.weight[drawn])] += torch.from_numpy(
            clip * self.sign[drawn]).to(total.dtype)

    def see(self, released: Tensor, sigma: float, clip: float) -> None:
        """Learn from a noisy sum (d,), as whoever holds it could."""
        seen = released[torch.from_numpy(self.weight)].double().cpu().numpy()
        self.score += self.sign * seen / (clip * sigma**2)


def draw(count: int) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """(included, sign) of `count` canaries, by the operating system's randomness."""
    secret = np.random.default_rng()
    return secret.random(count) < 0.5, secret.choice([-1.0, 1.0], count)


def draw_weights(count: int, weights: int) -> NDArray[np.int64]:
    """One of `weights` trained weights for each canary.

    Raises:
        InputError: there are fewer weights than canaries.
    """
    if count > weights:
        raise InputError(f"privacy.canaries is {count}; at most {weights} are allowed, as each "
                         "needs a trained weight of its own")
    return np.random.default_rng().permutation(weights)[:count].astype(np.int64)


def guessed(score: NDArray[np.float64], included: NDArray[np.bool_]) -> tuple[int, int]:
    """(correct, guesses): the highest tenth of the scores called in, the lowest called out."""
    each = max(1, round(_GUESSED * len(score)))
    return guesses_from_scores(score, included, each, each)
