"""Epsilon agrees with the measured table, composes, and calibration inverts it."""

import math

import pytest

from common.errors import InputError
from common.privacy.accounting import Plan, Spend, calibrate, epsilon

DELTA = 1e-5


@pytest.mark.parametrize(
    ("q", "steps", "sigma", "expected", "tolerance"),
    [  # Opacus 1.6's own accountant, rounded as the tolerance says
        (0.1, 100, 1.0, 7.9, 0.05),
        (0.3, 500, 3.0, 13.0, 0.5),
        (0.1, 2000, 2.0, 13.5, 0.05),
        (0.3, 100, 0.5, 90.0, 0.5),
    ],
)
def test_table(q: float, steps: int, sigma: float, expected: float, tolerance: float) -> None:
    assert epsilon([Spend(q, sigma, steps)], DELTA) == pytest.approx(expected, abs=tolerance)


def test_agrees_with_opacus_own_accountant() -> None:
    from opacus.accountants import RDPAccountant

    accountant = RDPAccountant()
    accountant.history = [(1.1, 0.05, 100), (0.8, 0.2, 7), (3.0, 1.0, 2)]
    ours = epsilon([Spend(q, sigma, n) for sigma, q, n in accountant.history], DELTA)
    assert ours == pytest.approx(accountant.get_epsilon(delta=DELTA), rel=1e-9)


def test_composes_instead_of_adding() -> None:
    half = Spend(0.3, 2.0, 20)
    total = epsilon([half, half], DELTA)
    assert total == pytest.approx(epsilon([Spend(0.3, 2.0, 40)], DELTA))
    assert epsilon([half], DELTA) < total < 0.9 * 2 * epsilon([half], DELTA)


def test_order_of_a_mixed_history_is_irrelevant() -> None:
    first, second = Spend(0.1, 1.0, 50), Spend(0.3, 3.0, 20)
    mixed = epsilon([first, second], DELTA)
    assert mixed == pytest.approx(epsilon([second, first], DELTA))
    assert mixed > max(epsilon([first], DELTA), epsilon([second], DELTA))


def test_history_is_left_alone() -> None:
    history = [Spend(0.1, 1.0, 5)]
    assert epsilon(history, DELTA) == epsilon(history, DELTA)
    assert history == [Spend(0.1, 1.0, 5)]


def test_edges() -> None:
    assert epsilon([], DELTA) == 0.0
    assert epsilon([Spend(0.1, 0.0, 0), Spend(0.0, 0.0, 9)], DELTA) == 0.0
    assert epsilon([Spend(0.1, 0.0, 1)], DELTA) == math.inf
    assert epsilon([Spend(0.1, 1.0, 1), Spend(0.1, 1e-200, 1)], DELTA) == math.inf


@pytest.mark.parametrize(
    ("plan", "target"), [([(0.1, 100, 1.0)], 1.0),
                         ([(0.1, 100, 1.0), (0.3, 50, 4.0), (1.0, 3, 0.5)], 8.0)]
)
def test_calibrate_meets_the_target_tightly(plan: Plan, target: float) -> None:
    sigma = calibrate(plan, target, DELTA)
    for times, within in ((1.0, True), (1 / 1.0011, False)):
        spends = [Spend(q, times * sigma / math.sqrt(share), n) for q, n, share in plan]
        assert (epsilon(spends, DELTA) <= target) == within


@pytest.mark.parametrize(
    ("plan", "target", "delta"),
    [
        ([(0.1, 100, 1.0)], 0.05, DELTA),  # below the floor of the Renyi orders
        ([], 1.0, DELTA),
        ([(0.1, 0, 1.0)], 1.0, DELTA),
        ([(1.1, 5, 1.0)], 1.0, DELTA),
        ([(0.1, 5, 0.0)], 1.0, DELTA),
        ([(0.1, 5, 1.0)], 0.0, DELTA),
        ([(0.1, 5, 1.0)], math.nan, DELTA),
        ([(0.1, 5, 1.0)], 1.0, 0.0),
    ],
)
def test_calibrate_refuses(plan: Plan, target: float, delta: float) -> None:
    with pytest.raises(InputError):
        calibrate(plan, target, delta)


@pytest.mark.parametrize(
    ("q", "sigma", "steps"), [(1.5, 1, 1), (-0.1, 1, 1), (0.1, -1, 1), (0.1, math.inf, 1),
                              (0.1, math.nan, 1), (0.1, 1, -1), (0.1, 1, 1.5)]
)  # fmt: skip
def test_spend_refuses(q: float, sigma: float, steps: int) -> None:
    with pytest.raises(InputError):
        Spend(q, sigma, steps)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_delta_is_checked_even_for_an_empty_history(delta: float) -> None:
    with pytest.raises(InputError, match="delta"):
        epsilon([], delta)
