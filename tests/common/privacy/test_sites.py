"""A patient of several hospitals is charged for all of them, by the mechanism that applies."""

import math

import numpy as np
import pytest
from dp_accounting.dp_event import (
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from scipy.stats import binom, norm

from common.errors import InputError
from common.privacy.accounting import Spend
from common.privacy.sites import _interval, _step, epsilon_sites

HISTORY, DELTA = [Spend(0.3, 3.0, 100)], 1e-3


@pytest.mark.parametrize(("sites", "shared", "naive"), [(2, 8.05, 5.07), (4, 20.96, 7.88)])
def test_one_noise_for_all_hospitals_hides_less_than_composition_says(
    sites: int, shared: float, naive: float
) -> None:
    assert epsilon_sites(HISTORY, DELTA, sites, "aggregate") == pytest.approx(shared, rel=2e-3)
    assert epsilon_sites(HISTORY, DELTA, sites, "hospital") == pytest.approx(naive, rel=2e-3)


def test_one_site_is_the_subsampled_gaussian() -> None:
    step = PoissonSampledDpEvent(0.3, GaussianDpEvent(3.0))
    exact = PLDAccountant(value_discretization_interval=1e-3)
    exact.compose(SelfComposedDpEvent(step, 100))
    ours = epsilon_sites(HISTORY, DELTA, 1, "aggregate")
    assert ours == epsilon_sites(HISTORY, DELTA, 1, "hospital")
    assert exact.get_epsilon(DELTA) <= ours <= 1.002 * exact.get_epsilon(DELTA)


def test_the_closed_form_of_one_site_is_the_mixture_of_one_site() -> None:
    mixture = privacy_loss_distribution.from_mixture_gaussian_mechanism(
        3.0, [0, 1], [0.7, 0.3], value_discretization_interval=0.01)
    for epsilon in (0.0, 0.1, 0.5):
        assert _step(3.0, 0.3, 1, 0.01).get_delta_for_epsilon(epsilon) == pytest.approx(
            mixture.get_delta_for_epsilon(epsilon), rel=1e-6)


def test_mixed_history_composes_and_ignores_order() -> None:
    history = [Spend(0.3, 3.0, 20), Spend(0.1, 4.0, 50)]
    exact = PLDAccountant(value_discretization_interval=5e-3)
    for q, sigma, steps in ((0.3, 3.0, 20), (0.1, 4.0, 50)):
        step = MixtureOfGaussiansDpEvent(sigma, [0, 1, 2], [(1 - q) ** 2, 2 * q * (1 - q), q**2])
        exact.compose(SelfComposedDpEvent(step, steps))
    ours = epsilon_sites(history, DELTA, 2, "aggregate")
    assert exact.get_epsilon(DELTA) - 1e-3 <= ours <= 1.003 * exact.get_epsilon(DELTA)
    assert ours == pytest.approx(epsilon_sites(history[::-1], DELTA, 2, "aggregate"))


@pytest.mark.parametrize("sites", [1, 2, 5])
def test_without_sampling_the_sum_moves_by_all_sites(sites: int) -> None:
    exact = get_epsilon_gaussian(4.0 / (sites * math.sqrt(9)), DELTA)
    ours = epsilon_sites([Spend(1.0, 4.0, 9)], DELTA, sites, "aggregate")
    assert exact <= ours <= 1.005 * exact


@pytest.mark.parametrize(("sigma", "q", "sites"), [(3.0, 0.3, 2), (0.5, 0.1, 4), (8.0, 0.05, 3)])
def test_one_step_is_bounded_from_above(sigma: float, q: float, sites: int) -> None:
    """The exact divergence of one step, by numerical integration, never exceeds ours."""
    step = _step(sigma, q, sites, _interval([(sigma, q, 1)], sites))
    x = np.linspace(-14 * sigma, sites + 14 * sigma, 200_001)
    without = norm.pdf(x, 0, sigma)
    moves = np.arange(sites + 1)
    chances = binom.pmf(moves, sites, q)
    inside = sum(c * norm.pdf(x, m, sigma) for m, c in zip(moves, chances, strict=True))
    for epsilon in (0.05, 0.3, 1.0, 3.0):
        for more, less in ((inside, without), (without, inside)):
            exact = np.trapezoid(np.maximum(more - math.exp(epsilon) * less, 0.0), x)
            assert step.get_delta_for_epsilon(epsilon) >= exact * (1 - 1e-6) - 1e-15


def test_edges() -> None:
    for trust in ("hospital", "aggregate"):
        assert epsilon_sites([], DELTA, 3, trust) == 0.0
        assert epsilon_sites([Spend(0.0, 0.0, 3)], DELTA, 3, trust) == 0.0
        assert epsilon_sites([Spend(0.1, 0.0, 1), *HISTORY], DELTA, 3, trust) == math.inf


@pytest.mark.parametrize(
    ("delta", "sites", "trust", "name"),
    [
        (0.0, 2, "hospital", "delta"),
        (DELTA, 0, "hospital", "sites"),
        (DELTA, 1.5, "aggregate", "sites"),
        (DELTA, 2, "server", "trust"),
    ],
)
def test_refuses(delta: float, sites: int, trust: str, name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} is"):
        epsilon_sites(HISTORY, delta, sites, trust)  # type: ignore[arg-type]
