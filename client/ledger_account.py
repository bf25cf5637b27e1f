"""What a hospital's releases add up to, per window and per patient.

Rows of unit window bound one window and nothing about its patient. Rows of unit patient bound the
patient, and through the patient each window, by group privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from client.ledger_chain import Release
from common.privacy.accounting import Spend, epsilon

AccountUnit = Literal["empty", "none", "window", "patient", "mixed"]

_LARGEST = 256.0  # a larger epsilon says nothing, and exp of it is still a float
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Account:
    """What the hospital has spent at `delta` over all its releases.

    Attributes:
        unit: what the releases protect; "none" once any left without noise, "mixed" where some
            protect windows and some patients.
        epsilon_window: infinite where it is not bounded.
        epsilon_patient: None where it is not bounded.
        delta: failure probability of each.
        releases: their number, settled or not.
        accepted: UTC time since when releases may be missing, as a person signed; None: never.
    """

    unit: AccountUnit
    epsilon_window: float
    epsilon_patient: float | None
    delta: float
    releases: int
    accepted: str | None = None


def account_of(releases: Sequence[Release], delta: float, accepted: str | None = None) -> Account:
    """Compose releases at `delta`.

    Raises:
        InputError: delta does not lie between 0 and 1.
    """
    units = {release.unit for release in releases}
    window, patient = counted("window", releases, delta), counted("patient", releases, delta)
    if accepted or "none" in units:
        window = math.inf
    bounded = units <= {"patient"} and not accepted and math.isfinite(patient)
    kind: AccountUnit = "empty"
    if units:
        kind = "none" if "none" in units else "mixed" if len(units) > 1 else units.pop()
    return Account(kind, window, patient if bounded else None, delta, len(releases), accepted)


def counted(unit: Literal["window", "patient"], releases: Sequence[Release], delta: float,
            more: Spend | None = None) -> float:
    """Epsilon per unit of those releases that bound it, and of one more.

    The cap is held to this number. Releases that do not bound the unit (without noise; of unit
    window, where patients are asked for) are left out: they make the account infinite, and say
    nothing on how much the others may add.
    """
    windows = [r.spend for r in releases if r.unit == "window" and r.spend]
    patients = [r.spend for r in releases if r.unit == "patient" and r.spend]
    if more is not None:
        (windows if unit == "window" else patients).append(more)
    if unit == "patient":
        return epsilon(patients, delta)
    if not patients:
        return epsilon(windows, delta)
    if not windows:
        return window_in_patient(patients, delta)
    return epsilon(windows, delta / 2) + window_in_patient(patients, delta / 2)


def window_in_patient(spends: Sequence[Spend], delta: float) -> float:
    """Epsilon per window, at delta, of releases that sample and clip whole patients.

    Adding or removing one window changes the patient's clipped contribution, which is as much as
    removing the patient and adding another: two steps P, Q, R of the patients' adjacency. If each
    is (e, d), then P <= exp(e) Q + d <= exp(2 e) R + (1 + exp(e)) d: the two are (2 e,
    (1 + exp(e)) d), so e must hold at delta / (1 + exp(e)) (group privacy; Vadhan 2017, "The
    complexity of differential privacy", section 2).

    Returns:
        2 e for an e that holds, at most .1 % above the smallest; infinity if it exceeds 512.
    """
    def holds(e: float) -> bool:
        return epsilon(spends, delta / (1 + math.exp(e))) <= e

    if epsilon(spends, delta) == 0:
        return 0.0
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
        if high > _LARGEST:
            return math.inf
    while high - low > _TOLERANCE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return 2 * high


def shown(epsilon: float | None) -> str:
    """An epsilon as people read it; one that is not bounded is never a number."""
    return f"{epsilon:.4g}" if epsilon is not None and math.isfinite(epsilon) else "not bounded"
