"""What can still be done with what is left of a cap, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

from client.ledger_account import counted, shown
from client.ledger_chain import Release
from common.errors import BudgetError, InputError
from common.privacy.accounting import Spend

MOST_STEPS = 10**9  # where a search for steps ends
_LEAST_SIGMA, _MOST_SIGMA = 2.0**-6, 2.0**12  # where a search for sigma ends
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Plan:
    """A cap on what the ledger's releases and one more may add up to.

    Attributes:
        unit: whose epsilon is capped, and what the new release protects.
        releases: the history.
        q: sampling rate of the new release, above 0.
        delta: failure probability.
        cap: largest epsilon per unit, finite and above 0.
    """

    unit: Literal["window", "patient"]
    releases: Sequence[Release]
    q: float
    delta: float
    cap: float

    def __post_init__(self) -> None:
        if self.unit not in ("window", "patient"):
            raise InputError(f"unit is {self.unit!r}; allowed: window, patient")
        if not 0 < self.q <= 1:
            raise InputError(f"q is {self.q}; it must be above 0 and at most 1")
        if not 0 < self.cap < math.inf:
            raise InputError(f"cap is {self.cap}; it must be finite and above 0")

    def spent(self) -> float:
        """Epsilon of the history alone."""
        return counted(self.unit, self.releases, self.delta)

    def total(self, sigma: float, steps: int) -> float:
        """Epsilon of the history and of `steps` more at `sigma`."""
        return counted(self.unit, self.releases, self.delta, Spend(self.q, sigma, steps))

    def steps(self, sigma: float) -> int:
        """The largest number of steps at `sigma` that fits, 0 to MOST_STEPS."""
        low, high = 0, 1
        while self.total(sigma, high) <= self.cap:
            low, high = high, 2 * high
            if low >= MOST_STEPS:
                return MOST_STEPS
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.total(sigma, middle) <= self.cap
            low, high = (middle, high) if fits else (low, middle)
        return low

    def sigma(self, steps: int) -> float:
        """The smallest sigma at which `steps` fit, at most .1 % above it.

        Raises:
            BudgetError: no sigma up to 4096 makes them fit.
            InputError: steps is below 1.
        """
        if steps < 1:
            raise InputError(f"steps is {steps}; it must be at least 1")
        low, high = _LEAST_SIGMA, 1.0
        if self.spent() > self.cap:
            self._refuse(steps, self.spent())
        while (total := self.total(high, steps)) > self.cap:
            if high >= _MOST_SIGMA:
                self._refuse(steps, total)
            low, high = high, 2 * high
        while high > low * (1 + _TOLERANCE):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.total(middle, steps) <= self.cap else (middle, high)
        return high

    def _refuse(self, steps: int, least: float) -> NoReturn:
        raise BudgetError(f"epsilon per {self.unit} at delta {self.delta:g}: spent "
                          f"{shown(self.spent())}, and {steps} more steps end at {shown(least)} or "
                          f"above, by any sigma up to {_MOST_SIGMA:g}; the cap is {self.cap:.4g}")
