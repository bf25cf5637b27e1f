"""A tighter epsilon for the final report: numerical composition of the privacy loss (PRV).

The ledger charges by Renyi divergences (accounting.py), which is quick and some 8 % too high or
more. Opacus's PRVAccountant (Gopi, Lee & Wutschitz 2021, arXiv:2106.02848) discretises the
privacy loss instead. It costs time and fails on some histories, so its work is bounded, and
the Renyi number stands wherever it is missing or no better. PRV follows the loss of removing a
person; the tests compare it with an accountant that takes the worse of both directions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

from common.privacy.accounting import Spend, check_delta, epsilon, merge

ERROR = 0.01  # wanted error of epsilon, absolute, and relative where epsilon is below 1
_LARGEST_ERROR = 1.0  # from here on Opacus no longer vouches for the domain it chooses
_POINTS = 1 << 20  # of all discretised losses together: some 2 s
_ENTRIES = 16  # distinct mechanisms: up to 1 s each, whatever the number of points
_LEAST_DELTA = 1e-10  # below it the rounding of the Fourier transforms shows


class Tight(NamedTuple):
    """An upper bound on epsilon (natural logarithm) and the accountant that gave it."""

    epsilon: float
    method: Literal["prv", "rdp"]


def tight_epsilon(spends: Sequence[Spend], delta: float) -> Tight:
    """Compose all spends by PRV where that is possible and lower, else by Renyi divergences.

    Args:
        spends: the whole history, in any order; it is not modified.
        delta: failure probability of the guarantee, between 0 and 1 exclusive.

    Returns:
        The total epsilon, never above `accounting.epsilon`. PRV's includes its own error, which
        is .01, or 1 % of an epsilon below 1, and up to 1 where the history is costly.

    Raises:
        InputError: if delta lies outside its range.
    """
    check_delta(delta)
    bound = epsilon(spends, delta)
    history = merge(spends)
    if not 0 < bound < math.inf or len(history) > _ENTRIES or delta < _LEAST_DELTA:
        return Tight(bound, "rdp")
    error = max(ERROR * min(1.0, bound), _affordable_error(spends, delta))
    if error >= _LARGEST_ERROR:
        return Tight(bound, "rdp")
    value = _prv(history, delta, error)
    return Tight(value, "prv") if value < bound else Tight(bound, "rdp")


def _affordable_error(spends: Sequence[Spend], delta: float) -> float:
    """Return the error of epsilon at which PRV needs `_POINTS` points for the whole history.

    Per entry it spans twice (reach + 3) in steps of error / sqrt(T log(12 / slack) / 2), with
    T steps in all and a slack in delta of delta / 1000; the reach is an epsilon at a share of it.
    """
    history, slack = merge(spends), delta / 1000
    total = sum(count for _, _, count in history)
    reach = epsilon(spends, slack / (8 * total))
    span = 2 * (reach + 3) * math.sqrt(total * math.log(12 / slack) / 2)
    return len(history) * span / _POINTS


def _prv(history: list[tuple[float, float, int]], delta: float, error: float) -> float:
    """Return Opacus's PRV epsilon of (sigma, q, steps) entries, or infinity where it fails."""
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = history
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflow far outside the range that decides
            value = float(accountant.get_epsilon(delta, eps_error=error))
    except (ValueError, RuntimeError, IndexError, ArithmeticError):
        return math.inf
    return value if math.isfinite(value) and value >= 0 else math.inf
