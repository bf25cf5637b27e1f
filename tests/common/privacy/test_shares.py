"""Shares of the noise carry the full sigma as long as enough hospitals reply."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InputError
from common.privacy.shares import effective_sigma, enough, share_sigma

SIGMAS = st.floats(1e-3, 1e3)


@st.composite
def _rounds(draw: st.DrawFn) -> tuple[int, int, int]:
    """Hospitals, missing ones allowed, and replies."""
    hospitals = draw(st.integers(1, 1000))
    return (hospitals, draw(st.integers(0, hospitals - 1)), draw(st.integers(0, hospitals)))


@given(SIGMAS, _rounds())
def test_enough_replies_carry_sigma_and_fewer_do_not(
    sigma: float, numbers: tuple[int, int, int]
) -> None:
    hospitals, missing, replied = numbers
    carried = effective_sigma(share_sigma(sigma, hospitals, missing), replied)
    assert (carried >= sigma) == enough(hospitals, missing, replied)


@given(SIGMAS, _rounds())
def test_the_worst_kept_round_carries_no_more_than_sigma(
    sigma: float, numbers: tuple[int, int, int]
) -> None:
    hospitals, missing, _ = numbers
    worst = effective_sigma(share_sigma(sigma, hospitals, missing), hospitals - missing)
    assert sigma <= worst <= sigma * (1 + 1e-12)


def test_variances_of_shares_add_up() -> None:
    share = share_sigma(3.0, 5, 1)
    sums = np.random.default_rng(0).normal(0.0, share, (20_000, 4)).sum(axis=1)
    assert sums.std() == pytest.approx(3.0, rel=0.03)
    assert effective_sigma(share, 5) == pytest.approx(3.0 * math.sqrt(5 / 4))
    assert effective_sigma(share, 0) == 0.0


@pytest.mark.parametrize(
    ("sigma", "hospitals", "missing", "name"),
    [
        (1.0, 4, 4, "missing"),
        (1.0, 4, 5, "missing"),
        (1.0, 4, -1, "missing"),
        (1.0, 4, 0.5, "missing"),
        (1.0, 0, 0, "hospitals"),
        (-1.0, 4, 1, "sigma"),
        (math.nan, 4, 1, "sigma"),
    ],
)
def test_share_refuses(sigma: float, hospitals: int, missing: int, name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} is"):
        share_sigma(sigma, hospitals, missing)


@pytest.mark.parametrize("replied", [-1, 5, 2.5])
def test_replies_are_counted(replied: int) -> None:
    with pytest.raises(InputError, match=r"^replied is .* from 0 to 4"):
        enough(4, 1, replied)
    if replied != 5:
        with pytest.raises(InputError, match="^replied is"):
            effective_sigma(1.0, replied)


def test_effective_sigma_refuses_a_share_that_is_no_number() -> None:
    with pytest.raises(InputError, match="^share is"):
        effective_sigma(math.inf, 2)
