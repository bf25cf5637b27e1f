"""Lower bounds hold as often as they claim, certify what they can, and never more."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from common.errors import InputError
from common.privacy.lower_bound import (
    epsilon_from_tails,
    epsilon_lower_bound,
    guesses_from_scores,
)


@pytest.mark.parametrize(("canaries", "roughly"), [(10, 1.05), (47, 2.72), (9000, 8.0)])
def test_perfect_guesses_certify_what_their_number_allows(canaries: int, roughly: float) -> None:
    p = 0.05 ** (1 / canaries)
    bound = epsilon_lower_bound(canaries, canaries, canaries, 0.0)
    assert bound == pytest.approx(math.log(p / (1 - p)), rel=1e-9)
    assert bound == pytest.approx(roughly, abs=0.02)


def _chance(correct: int, guesses: int, canaries: int, delta: float, epsilon: float) -> float:
    """Theorem 5.2 of Steinke et al. as it is written."""
    def f(v: int) -> float:
        return float(binom.sf(v - 1, guesses, math.exp(epsilon) / (1 + math.exp(epsilon))))

    worst = max((f(correct - i) - f(correct)) / i for i in range(1, canaries + 1))
    return f(correct) + 2 * canaries * delta * worst


@pytest.mark.parametrize(
    ("correct", "guesses", "canaries", "delta"),
    [(47, 47, 47, 1e-3), (40, 47, 47, 1e-2), (90, 100, 400, 1e-4), (58, 60, 1000, 1e-5)],
)
def test_the_bound_is_where_the_theorem_turns(
    correct: int, guesses: int, canaries: int, delta: float
) -> None:
    bound = epsilon_lower_bound(correct, guesses, canaries, delta)
    assert bound > 0.2
    assert _chance(correct, guesses, canaries, delta, bound) <= 0.05
    assert _chance(correct, guesses, canaries, delta, bound + 2e-4) > 0.05


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_randomised_response_is_seldom_accused(epsilon: float) -> None:
    """The exact chance, over all outcomes of 200 canaries, that the bound exceeds the truth."""
    outcomes = np.arange(201)
    too_high = [epsilon_lower_bound(int(v), 200, 200, 0.0) > epsilon + 1e-9 for v in outcomes]
    rate = 1 / (1 + math.exp(-epsilon))
    assert 0.01 < binom.pmf(outcomes, 200, rate)[too_high].sum() <= 0.05


def test_random_guesses_certify_about_nothing() -> None:
    assert epsilon_lower_bound(500, 1000, 1000, 0.0) == 0.0
    assert epsilon_lower_bound(500, 1000, 1000, 1e-5) == 0.0
    assert epsilon_lower_bound(0, 0, 10, 0.0) == epsilon_lower_bound(0, 5, 10, 1e-3) == 0.0


@st.composite
def _outcomes(draw: st.DrawFn) -> tuple[int, int, int]:
    canaries = draw(st.integers(1, 150))
    guesses = draw(st.integers(1, canaries))
    return draw(st.integers(0, guesses - 1)), guesses, canaries


DELTAS = st.sampled_from([0.0, 1e-6, 1e-4, 1e-3, 1e-2, 0.1])


@given(_outcomes(), DELTAS, DELTAS)
def test_more_hits_never_lower_it_and_more_delta_never_raises_it(
    outcome: tuple[int, int, int], delta: float, other: float
) -> None:
    correct, guesses, canaries = outcome
    bound = epsilon_lower_bound(correct, guesses, canaries, delta)
    assert epsilon_lower_bound(correct + 1, guesses, canaries, delta) >= bound - 1e-4
    if other > delta:
        assert epsilon_lower_bound(correct, guesses, canaries, other) <= bound + 1e-4


@given(_outcomes(), DELTAS)
def test_abstaining_or_more_confidence_never_gives_more(
    outcome: tuple[int, int, int], delta: float
) -> None:
    correct, guesses, canaries = outcome
    bound = epsilon_lower_bound(correct, guesses, canaries, delta)
    assert epsilon_lower_bound(correct, guesses, canaries + 50, delta) <= bound + 1e-4
    assert epsilon_lower_bound(correct, guesses, canaries, delta, 0.99) <= bound + 1e-4


def test_guesses_take_the_ends() -> None:
    scores = [0.9, 0.1, 0.5, 0.7, 0.3]
    included = [True, False, True, False, True]
    assert guesses_from_scores(scores, included, 1, 1) == (2, 2)
    assert guesses_from_scores(scores, included, 2, 2) == (2, 4)  # .7 and .3 are wrong
    assert guesses_from_scores(scores, included, 0, 1) == (1, 1)
    assert guesses_from_scores(scores, included, 3, 0) == (2, 3)
    assert guesses_from_scores(scores, included, 0, 0) == (0, 0)
    negated = [not coin for coin in included]
    assert guesses_from_scores(scores, negated, 2, 2) == (2, 4)
    assert guesses_from_scores(scores, negated, 1, 1) == (0, 2)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=30), st.data())
def test_ties_never_help_and_order_tells_nothing(
    canaries: list[tuple[int, bool]], data: st.DataObject
) -> None:
    k_plus = data.draw(st.integers(0, len(canaries)))
    k_minus = data.draw(st.integers(0, len(canaries) - k_plus))
    shuffled = data.draw(st.permutations(canaries))
    scores, coins = [s for s, _ in canaries], [c for _, c in canaries]
    found = guesses_from_scores(scores, coins, k_plus, k_minus)
    assert found[1] == k_plus + k_minus
    assert found == guesses_from_scores([s for s, _ in shuffled], [c for _, c in shuffled],
                                        k_plus, k_minus)
    untied = np.array(scores) + np.linspace(0, 0.5, len(scores))
    assert found[0] <= guesses_from_scores(untied, coins, k_plus, k_minus)[0]


def _responses(rng: np.random.Generator, epsilon: float, bit: int, n: int) -> np.ndarray:
    truth = rng.random(n) < 1 / (1 + math.exp(-epsilon))
    return np.where(truth, bit, 1 - bit).astype(float)


def test_tails_of_randomised_response_hold_as_often_as_claimed() -> None:
    rng, runs = np.random.default_rng(0), 300
    found = [epsilon_from_tails(_responses(rng, 1.0, 1, 2000), _responses(rng, 1.0, 0, 2000),
                                0.0, 0.8) for _ in range(runs)]  # fmt: skip
    exceeding = sum(bound > 1.0 for bound in found)
    assert 0 < exceeding <= binom.ppf(0.9999, runs, 0.2)
    assert np.mean(found) > 0.85  # and tight


def test_tails_of_one_mechanism_prove_nothing() -> None:
    rng = np.random.default_rng(1)
    runs = [epsilon_from_tails(rng.normal(size=1000), rng.normal(size=1000), 0.0, 0.8)
            for _ in range(100)]
    assert sum(bound > 0.0 for bound in runs) <= binom.ppf(0.9999, 100, 0.2)


@pytest.mark.parametrize("event", [0.05, 0.95])
@pytest.mark.parametrize("swap", [False, True])
def test_every_side_and_direction_is_searched(event: float, swap: bool) -> None:
    """One of two uniforms has a hole at one end, which only one event and direction shows."""
    rng = np.random.default_rng(2)
    whole, holed = rng.random(4000), rng.random(4000)
    holed = np.where((holed < event) if event < 0.5 else (holed > event), 0.5, holed)
    pair = (holed, whole) if swap else (whole, holed)
    assert epsilon_from_tails(*pair, 1e-3) > 1.5
    assert epsilon_from_tails(*pair, 0.04) < epsilon_from_tails(*pair, 1e-3)
    assert epsilon_from_tails(*pair, 0.06) < 0.1  # delta excuses the whole event


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((5, 4, 10, 0.0), "correct"),
        ((-1, 4, 10, 0.0), "correct"),
        ((3, 11, 10, 0.0), "correct"),
        ((3, 4, 10, 1.0), "delta"),
        ((3, 4, 10, -0.1), "delta"),
        ((3, 4, 10, 0.0, 1.0), "confidence"),
    ],
)
def test_bound_refuses(arguments: tuple[int, int, int, float], name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} is"):
        epsilon_lower_bound(*arguments)


@pytest.mark.parametrize(
    ("scores", "included", "k_plus", "k_minus", "name"),
    [
        ([1.0, math.nan], [True, False], 1, 1, "scores"),
        ([[1.0]], [[True]], 0, 1, "scores"),
        ([1.0, 2.0], [True], 1, 1, "included"),
        ([1.0, 2.0], [True, False], 2, 1, "k_plus"),
        ([1.0, 2.0], [True, False], -1, 1, "k_plus"),
    ],
)
def test_guesses_refuse(
    scores: list[float], included: list[bool], k_plus: int, k_minus: int, name: str
) -> None:
    with pytest.raises(InputError, match=f"^{name} (is|has)"):
        guesses_from_scores(scores, included, k_plus, k_minus)


def test_tails_refuse() -> None:
    with pytest.raises(InputError, match="at least 2"):
        epsilon_from_tails([1.0], [1.0, 2.0], 0.0)
    with pytest.raises(InputError, match="^out_scores has"):
        epsilon_from_tails([1.0, 2.0], [1.0, math.inf], 0.0)
