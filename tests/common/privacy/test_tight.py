"""Tight epsilons lie below the Renyi ones, agree with other accountants, and fall back."""

import math

import pytest
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from opacus.accountants import PRVAccountant, RDPAccountant

from common.errors import InputError
from common.privacy import tight
from common.privacy.accounting import Spend, epsilon
from common.privacy.tight import ERROR, tight_epsilon

DELTA = 1e-5
GRID = [Spend(0.1, 1.0, 100), Spend(0.3, 3.0, 100), Spend(0.01, 0.8, 500), Spend(1.0, 2.0, 5),
        Spend(0.2, 12.0, 50)]  # fmt: skip


def _event(spend: Spend) -> SelfComposedDpEvent:
    step = PoissonSampledDpEvent(spend.q, GaussianDpEvent(spend.sigma))
    return SelfComposedDpEvent(step, spend.steps)


@pytest.mark.parametrize("spend", GRID)
def test_accountants_agree(spend: Spend) -> None:
    value, method = tight_epsilon([spend], DELTA)
    renyi = epsilon([spend], DELTA)
    assert method == "prv" and value < renyi

    # dp-accounting leaves out fractional orders whose series it does not see converge.
    other = RdpAccountant(orders=RDPAccountant.DEFAULT_ALPHAS).compose(_event(spend))
    assert renyi == pytest.approx(other.get_epsilon(DELTA), rel=2e-3)

    # Its interval rounds up by well under a thousandth here; it also bounds adding a person.
    exact = PLDAccountant(value_discretization_interval=1e-3).compose(_event(spend))
    error = ERROR * min(1.0, renyi)
    assert value == pytest.approx(exact.get_epsilon(DELTA) + error, rel=1e-3, abs=0.2 * error)


def test_mixed_history_agrees_with_another_accountant() -> None:
    history = [Spend(0.1, 1.0, 50), Spend(0.3, 3.0, 20), Spend(1.0, 5.0, 3)]
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for spend in history:
        accountant.compose(_event(spend))
    value, method = tight_epsilon(history, DELTA)
    assert method == "prv"
    assert value == pytest.approx(accountant.get_epsilon(DELTA) + ERROR, abs=0.2 * ERROR)


def test_equal_entries_are_merged_and_cost_nothing_more() -> None:
    many = tight_epsilon([Spend(0.1, 2.0, 1)] * 40, DELTA)
    assert many.method == "prv"
    assert many == tight_epsilon([Spend(0.1, 2.0, 40)], DELTA)


def test_cost_is_bounded_by_a_larger_error(monkeypatch: pytest.MonkeyPatch) -> None:
    history, asked = [Spend(0.3, 0.5, 500)], []
    domain = PRVAccountant._get_domain

    def spy(self: PRVAccountant, **settings: object) -> object:
        found = domain(self, **settings)
        asked.append(found.size)
        return found

    monkeypatch.setattr(PRVAccountant, "_get_domain", spy)
    value, method = tight_epsilon(history, DELTA)
    assert method == "prv" and value < epsilon(history, DELTA) - 10
    assert tight._POINTS / 2 < asked[0] <= tight._POINTS


@pytest.mark.parametrize(
    ("history", "delta"),
    [
        ([], DELTA),
        ([Spend(0.1, 0.0, 1)], DELTA),
        ([Spend(0.3, 0.02, 3)], DELTA),  # fails: overflow
        ([Spend(0.3, 0.5, 20_000)], DELTA),  # costs too much
        ([Spend(0.1, 1.0, 10)], 1e-11),  # rounding would show
    ],
)
def test_falls_back_to_renyi(history: list[Spend], delta: float) -> None:
    value, method = tight_epsilon(history, delta)
    assert method == "rdp" and value == epsilon(history, delta)


def test_many_mechanisms_cost_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tight, "_ENTRIES", 1)
    assert tight_epsilon([Spend(0.1, 2.0, 7), Spend(0.2, 2.0, 1)], DELTA).method == "rdp"


@pytest.mark.parametrize("answer", [math.nan, math.inf, -1.0, 1e3])
def test_an_answer_that_is_none_or_no_better_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, answer: float
) -> None:
    monkeypatch.setattr(PRVAccountant, "get_epsilon", lambda *_, **__: answer)
    assert tight_epsilon([Spend(0.1, 2.0, 7)], DELTA).method == "rdp"


def test_delta_is_checked() -> None:
    with pytest.raises(InputError, match="delta"):
        tight_epsilon([], 0.0)
