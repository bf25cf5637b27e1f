"""The privacy account: epsilon of a history of noisy steps, and the noise that meets a target.

The mechanism is the Poisson-subsampled Gaussian under add-or-remove adjacency. Histories compose
as Renyi divergences (Opacus's RDPAccountant; Mironov 2017, arXiv:1702.07476): epsilons are never
added up. Opacus is imported inside the functions because its import takes seconds.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

SIGMA_LOW = 2.0**-6  # below it, epsilon is in the thousands and Opacus's series lose precision
_SIGMA_HIGH = 2.0**20
_TOLERANCE = 1e-3  # relative precision of a calibrated sigma


@dataclass(frozen=True)
class Spend:
    """Steps of the subsampled Gaussian mechanism that share a rate and a noise.

    Attributes:
        q: sampling rate per step, from 0 to 1.
        sigma: noise standard deviation over the clipping norm (no unit), at least 0.
        steps: number of steps, at least 0; empty batches count.

    Raises:
        InputError: if a value lies outside its range.
    """

    q: float
    sigma: float
    steps: int

    def __post_init__(self) -> None:
        _check_rate(self.q)
        if not (math.isfinite(self.sigma) and self.sigma >= 0):
            raise InputError(f"sigma is {self.sigma}; it must be finite and at least 0")
        _check_steps(self.steps)


def epsilon(spends: Sequence[Spend], delta: float) -> float:
    """Compose all spends and return the total epsilon at delta.

    Args:
        spends: the whole history, in any order; it is not modified.
        delta: failure probability of the guarantee, between 0 and 1 exclusive.

    Returns:
        Total epsilon (natural logarithm): 0 if nothing was spent, infinity if a step had no noise.

    Raises:
        InputError: if delta lies outside its range.
    """
    check_delta(delta)
    history = merge(spends)
    if not history:
        return 0.0
    if any(sigma < SIGMA_LOW for sigma, _, _ in history):
        return math.inf  # a valid upper bound, and the only one without noise
    return _compose(history, delta)


def merge(spends: Sequence[Spend]) -> list[tuple[float, float, int]]:
    """Add up the steps of equal mechanisms; return (sigma, q, steps) in ascending order.

    Spends that release nothing, of no step or of rate 0, are left out.
    """
    steps: defaultdict[tuple[float, float], int] = defaultdict(int)
    for spend in spends:
        if spend.q > 0 and spend.steps > 0:
            steps[(float(spend.sigma), float(spend.q))] += int(spend.steps)
    return [(sigma, q, count) for (sigma, q), count in sorted(steps.items())]


Plan = Sequence[tuple[float, int, float]]


def calibrate(plan: Plan, epsilon: float, delta: float) -> float:
    """Find the one sigma for a whole plan of steps that just meets a total epsilon.

    Args:
        plan: sampling rate, number of steps and share, over all stages and rounds to come. A step
            of share w has sigma / sqrt(w): in the limit of small steps it spends w times as much.
        epsilon: target for the whole plan, finite and above 0.
        delta: failure probability of the guarantee, between 0 and 1 exclusive.

    Returns:
        The smallest sigma (noise over clipping norm, within 0.1 % from above) whose total
        epsilon does not exceed the target.

    Raises:
        InputError: if an argument is out of range, the plan is empty, or no sigma is enough
            (the Renyi orders set a floor of about .1 on epsilon at delta = 1e-5).
    """
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(f"epsilon is {epsilon}; it must be finite and above 0")
    for rate, count, share in plan:
        _check_rate(rate)
        _check_steps(count)
        if not (math.isfinite(share) and share > 0):
            raise InputError(f"share is {share}; it must be finite and above 0")
    if not any(rate > 0 and count > 0 for rate, count, _ in plan):
        raise InputError(f"plan is {list(plan)}; it must hold at least one step with q above 0")
    low, high = _bracket(plan, epsilon, delta)
    low, high = _bisect(plan, epsilon, delta, low, high, coarse=True)
    # Whole orders over-count, so the exact answer is this sigma or somewhat less.
    low = high
    while low >= SIGMA_LOW and _plan_epsilon(plan, low, delta) <= epsilon:
        low, high = 0.98 * low, low
    return _bisect(plan, epsilon, delta, low, high, coarse=False)[1]


def _bisect(plan: Plan, target: float, delta: float, low: float,
            high: float, coarse: bool) -> tuple[float, float]:
    """Return a narrower (low, high) of which high still meets the target."""
    while high > low * (1.0 + _TOLERANCE):
        middle = math.sqrt(low * high)
        if _plan_epsilon(plan, middle, delta, coarse) <= target:
            high = middle
        else:
            low = middle
    return low, high


def _bracket(plan: Plan, target: float, delta: float) -> tuple[float, float]:
    """Return sigmas (low, high): high meets the target, low does not or is the least allowed.

    Raises:
        InputError: if even the largest noise considered misses the target.
    """
    floor = _plan_epsilon(plan, _SIGMA_HIGH, delta)
    if floor > target:
        raise InputError(
            f"epsilon is {target} at delta {delta}; no noise brings this plan below {floor:.4g}"
        )
    high = 1.0
    while _plan_epsilon(plan, high, delta, coarse=True) > target:
        high *= 2.0
    low = high / 2.0
    while low >= SIGMA_LOW and _plan_epsilon(plan, low, delta, coarse=True) <= target:
        low, high = low / 2.0, low
    return (low, high) if low >= SIGMA_LOW else (high, high)


def _plan_epsilon(plan: Plan, sigma: float, delta: float, coarse: bool = False) -> float:
    """Return the total epsilon of a plan at one sigma for steps of share 1."""
    return _compose([(sigma / math.sqrt(share), rate, count) for rate, count, share in plan
                     if rate and count], delta, coarse)


def _compose(history: list[tuple[float, float, int]], delta: float, coarse: bool = False) -> float:
    """Return Opacus's epsilon for entries of (sigma, q, steps); infinity where it has no bound.

    Whole orders alone (coarse) are some fifteen times faster and give an upper bound.
    """
    from opacus.accountants import RDPAccountant
    from opacus.accountants.analysis.rdp import get_privacy_spent

    check_delta(delta)
    orders = tuple(a for a in RDPAccountant.DEFAULT_ALPHAS if not coarse or a == int(a))
    total = np.sum([count * _rdp_of_a_step(q, sigma, orders) for sigma, q, count in history], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a best order at the edge still gives a valid bound
        value = float(get_privacy_spent(orders=list(orders), rdp=total, delta=delta)[0])
    return value if math.isfinite(value) else math.inf


@lru_cache(1024)  # a ledger asks for the same few mechanisms after every round
def _rdp_of_a_step(q: float, sigma: float, orders: tuple[float, ...]) -> NDArray[np.float64]:
    from opacus.accountants.analysis.rdp import compute_rdp

    # Whole orders as integers: Opacus sums a finite series for them.
    exact = [int(a) if a == int(a) else a for a in orders]
    return np.asarray(compute_rdp(q=q, noise_multiplier=sigma, steps=1, orders=exact))


def _check_rate(q: float) -> None:
    """Raise InputError unless q is a probability."""
    if not 0.0 <= q <= 1.0:
        raise InputError(f"q is {q}; it must lie between 0 and 1")


def _check_steps(steps: int) -> None:
    """Raise InputError unless steps is a whole number of at least 0."""
    if int(steps) != steps or steps < 0:
        raise InputError(f"steps is {steps}; it must be a whole number of at least 0")


def check_delta(delta: float) -> None:
    """Raise InputError unless 0 < delta < 1."""
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta is {delta}; it must lie between 0 and 1, both excluded")
