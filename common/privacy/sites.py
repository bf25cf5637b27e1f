"""Epsilon of a patient who is at several hospitals, from the account of one of them.

A hospital sees its own spends only. Every other hospital at which the patient is registered is
assumed to spend the same: the same rates, noise and numbers of steps. Two cases of trust:

* "hospital": each hospital adds all its noise itself. K releases answer about one person, so
  K hospitals compose K-fold.
* "aggregate": in every step the hospitals' clipped sums are added and carry one noise. Each of
  K hospitals samples the person on its own with rate q, so the sum moves by 0 to K clipping
  norms, binomially often: a mixture of Gaussians (Choquette-Choo, Ganesh, Steinke & Thakurta
  2023, arXiv:2310.15526). K-fold composition would claim far too little here. It covers steps
  whose *sum* is noised; local steps between two aggregations are not.

Losses are discretised by dp-accounting's connect-the-dots method with its pessimistic rounding,
the mass cut off counting as a total loss of privacy, for adding and for removing the person: an
upper bound at any interval. The interval decides only how close it is (see `_interval`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Literal

from common.errors import InputError
from common.privacy.accounting import SIGMA_LOW, Spend, check_delta, merge

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Trust = Literal["hospital", "aggregate"]

_FINE = 16  # points per typical loss of one step: epsilon within .1 % at usual rates
_COARSE = 800  # a tenth of the most points that one step may take, which is some seconds


def epsilon_sites(spends: Sequence[Spend], delta: float, sites: int, trust: Trust) -> float:
    """Compose the spends of `sites` hospitals that all spend alike, for a patient of each.

    Args:
        spends: one hospital's whole history; sigma is the noise over the clipping norm of one
            patient at one hospital, on the hospital's sum ("hospital") or on the sum over all
            hospitals ("aggregate").
        delta: failure probability of the guarantee, between 0 and 1 exclusive.
        sites: number K of hospitals the patient is registered at, at least 1.
        trust: where the noise is, "hospital" or "aggregate".

    Returns:
        Total epsilon (natural logarithm): 0 if nothing was spent, infinity where a step had next
        to no noise or the numbers overflow.

    Raises:
        InputError: if an argument lies outside its range.
    """
    check_delta(delta)
    if int(sites) != sites or sites < 1:
        raise InputError(f"sites is {sites}; it must be a whole number of at least 1")
    if trust not in ("hospital", "aggregate"):
        raise InputError(f"trust is {trust!r}; it must be 'hospital' or 'aggregate'")
    history = merge(spends)
    if not history:
        return 0.0
    hit, repeats = (1, int(sites)) if trust == "hospital" else (int(sites), 1)
    if any(sigma / hit < SIGMA_LOW for sigma, _, _ in history):
        return math.inf
    interval = _interval(history, hit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow of losses too large to matter
        parts = [_step(sigma, q, hit, interval).self_compose(count * repeats)
                 for sigma, q, count in history]
        total = reduce(lambda one, other: one.compose(other), parts)
        return float(total.get_epsilon_for_delta(delta))


def _interval(history: list[tuple[float, float, int]], hit: int) -> float:
    """Return the one interval of loss values in which a whole history is discretised.

    A step's losses span about ten times `scale` and typically lie around q times `scale`.
    """
    scales = [(q, hit / sigma * (1.0 + hit / (20.0 * sigma))) for sigma, q, _ in history]
    return max(min(q * scale for q, scale in scales) / _FINE,
               max(scale for _, scale in scales) / _COARSE)


@lru_cache(64)  # a history repeats few mechanisms, and a mixture takes up to seconds
def _step(sigma: float, q: float, hit: int, interval: float) -> PrivacyLossDistribution:
    """Return the privacy loss of one step in which the sum moves by Binomial(hit, q) norms."""
    from dp_accounting.pld import privacy_loss_distribution as pld
    from scipy.stats import binom

    if hit == 1:  # the same distribution from a closed form, fifty times sooner
        return pld.from_gaussian_mechanism(sigma, sampling_prob=q,
                                           value_discretization_interval=interval)
    moves = [(move, float(binom.pmf(move, hit, q))) for move in range(hit + 1)]
    moves = [(move, chance) for move, chance in moves if chance > 0]
    return pld.from_mixture_gaussian_mechanism(
        sigma, [move for move, _ in moves], [chance for _, chance in moves],
        value_discretization_interval=interval)
