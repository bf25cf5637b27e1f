"""What releases that protect patients say about one window: never less than is true."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from client.ledger import Release
from client.ledger_account import Account, account_of, counted, shown, window_in_patient
from common.privacy.accounting import Spend, epsilon

DELTA = 1e-5


def release(unit, sigma=2.0, steps=20, q=0.3, trust="hospital"):
    numbers = (None, None, None) if unit == "none" else (q, sigma, steps)
    return Release(1, "2026-12-01", "run", "rean", 1, unit, trust, *numbers, DELTA, "0" * 64)


def gaussian_delta(e: float, sensitivity: float, sigma: float) -> float:
    """The exact delta of one Gaussian release (Balle and Wang 2018, theorem 8)."""
    half, slope = sensitivity / (2 * sigma), e * sigma / sensitivity
    return float(norm.cdf(half - slope) - math.exp(e + norm.logcdf(-half - slope)))


@settings(max_examples=30, deadline=None)
@given(sigma=st.floats(2.0, 40.0), steps=st.integers(1, 50), delta=st.sampled_from([1e-3, 1e-6]))
def test_replacing_a_patient_is_covered_exactly(sigma: float, steps: int, delta: float) -> None:
    """Without sampling, replaced contributions are one Gaussian of sensitivity 2 sqrt(steps)."""
    claimed = window_in_patient([Spend(1.0, sigma, steps)], delta)
    if math.isfinite(claimed):
        assert gaussian_delta(claimed, 2 * math.sqrt(steps), sigma) <= delta


@settings(max_examples=30, deadline=None)
@given(q=st.floats(0.01, 1.0), sigma=st.floats(0.8, 20.0), steps=st.integers(1, 300))
def test_holds_at_its_own_delta_and_barely(q: float, sigma: float, steps: int) -> None:
    spends = [Spend(q, sigma, steps)]
    e = window_in_patient(spends, DELTA) / 2
    if not math.isfinite(e):
        assert epsilon(spends, DELTA) > 30
        return
    assert epsilon(spends, DELTA / (1 + math.exp(e))) <= e
    less = 0.997 * e
    assert epsilon(spends, DELTA / (1 + math.exp(less))) > less
    assert 2 * e >= 2 * epsilon(spends, DELTA)


def test_ends_of_the_range() -> None:
    assert window_in_patient([], DELTA) == 0
    assert window_in_patient([Spend(0.0, 1.0, 10)], DELTA) == 0
    assert window_in_patient([Spend(0.5, 0.0, 1)], DELTA) == math.inf
    assert window_in_patient([Spend(1.0, 0.1, 1000)], DELTA) == math.inf


def test_windows_and_patients_share_delta() -> None:
    rows = [release("window"), release("patient", 3.0)]
    spends = Spend(0.3, 2.0, 20), Spend(0.3, 3.0, 20)
    expected = (epsilon(spends[:1], DELTA / 2) + window_in_patient(spends[1:], DELTA / 2))
    assert account_of(rows, DELTA) == Account("mixed", expected, None, DELTA, 2)
    assert counted("patient", rows, DELTA) == epsilon(spends[1:], DELTA)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["none", "window", "patient"]), max_size=4),
       st.sampled_from(["none", "window", "patient"]), st.booleans())
def test_another_release_never_lowers_the_account(units, more, accepted) -> None:
    """And None or infinity never goes back to a number."""
    since = "2026-12-01" if accepted else None
    before = account_of([release(unit) for unit in units], DELTA)
    after = account_of([release(unit) for unit in [*units, more]], DELTA, since)
    assert after.epsilon_window >= before.epsilon_window
    if before.epsilon_patient is None or more != "patient" or accepted:
        assert after.epsilon_patient is None
    else:
        assert after.epsilon_patient > before.epsilon_patient
    assert (after.epsilon_window == math.inf) == ("none" in [*units, more] or accepted)


def test_not_bounded_is_no_number() -> None:
    assert shown(None) == shown(math.inf) == shown(math.nan) == "not bounded"
    assert shown(8.123456) == "8.123" and shown(0.0) == "0"


@pytest.mark.parametrize("bad", [("visit", 1.0), ("none", 1.0), ("window", None)])
def test_a_row_fits_its_unit(bad) -> None:
    unit, sigma = bad
    with pytest.raises(ValueError, match="unit is"):
        Release(1, "", "run", "rean", 1, unit, "hospital", 0.1, sigma, 5, DELTA, "0" * 64)
