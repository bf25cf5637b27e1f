"""Empirical lower bounds on epsilon: what an attack that was run proves about the mechanism.

A lower bound above the accountant's epsilon is a bug (or chance, once in 1 / (1 - confidence)).
One run gives a bound through many canaries (Steinke, Nasr & Jagielski 2023, arXiv:2305.08846);
many independent runs of a small mechanism give one through the tails of its outputs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom

from common.errors import InputError
from common.privacy.accounting import check_delta

_PRECISION = 1e-4  # of epsilon, from below


def epsilon_lower_bound(
    correct: int, guesses: int, canaries: int, delta: float, confidence: float = 0.95
) -> float:
    """Bound epsilon from below by guessing which canaries one training run included.

    Each canary must have been included by its own fair coin, and the number of guesses fixed in
    advance. Theorem 5.2 of Steinke et al. bounds the chance of so many correct guesses under
    (epsilon, delta); the result is the largest epsilon that this refutes.

    Args:
        correct: right guesses v, from 0 to `guesses`.
        guesses: guesses made r, from 0 to `canaries`; the others were abstained from.
        canaries: number m of canaries.
        delta: from 0 to below 1.
        confidence: chance that the bound holds, between 0 and 1 exclusive.

    Returns:
        Epsilon (natural logarithm), at least 0. All of 47 correct certify 2.7, and some 9,000
        are needed for 8.

    Raises:
        InputError: if an argument lies outside its range.
    """
    if not 0 <= correct <= guesses <= canaries:
        raise InputError(f"correct is {correct}, guesses {guesses} and canaries {canaries}; they "
                         "must ascend from 0")
    _check_odds(delta, confidence)
    level = 1.0 - confidence
    high = _pure_bound(correct, guesses, level)
    if delta == 0.0 or high == 0.0:
        return high
    low = 0.0
    if _chance(correct, guesses, canaries, delta, low) > level:
        return low
    while high - low > _PRECISION:  # low is refuted at every step, so it is always a bound
        middle = (low + high) / 2
        if _chance(correct, guesses, canaries, delta, middle) <= level:
            low = middle
        else:
            high = middle
    return low


def guesses_from_scores(
    scores: ArrayLike, included: ArrayLike, k_plus: int, k_minus: int
) -> tuple[int, int]:
    """Guess the highest scores to be included and the lowest to be left out; count the hits.

    Ties are broken against the guesser, as the order of the arrays may know the answer.

    Args:
        scores: (m,) finite; higher where the canary looks included.
        included: (m,) of bool, the coins.
        k_plus, k_minus: numbers of guesses "in" and "out", at least 0, together at most m. They
            must be fixed in advance: the best of several pairs is not a bound.

    Returns:
        (correct, guesses), of which guesses = k_plus + k_minus.

    Raises:
        InputError: if the arrays or the numbers do not fit.
    """
    values, coins = _finite("scores", scores), np.asarray(included, dtype=bool)
    if coins.shape != values.shape:
        raise InputError(f"included has shape {coins.shape}; it must have that of the scores, "
                         f"{values.shape}")
    if min(k_plus, k_minus) < 0 or k_plus + k_minus > len(values):
        raise InputError(f"k_plus is {k_plus} and k_minus {k_minus}; they must be at least 0 and "
                         f"together at most {len(values)}")
    order = np.lexsort((coins, -values))  # from the highest; of equals those left out first
    top, rest = coins[order[:k_plus]], order[k_plus:]
    bottom = coins[rest[len(rest) - k_minus:]]
    return int(top.sum() + (~bottom).sum()), k_plus + k_minus


def epsilon_from_tails(
    in_scores: ArrayLike, out_scores: ArrayLike, delta: float, confidence: float = 0.999
) -> float:
    """Bound epsilon from below by the scores of independent runs with and without a person.

    One half of each sample chooses a threshold, its side and the direction (P with over P
    without, or the inverse); the other half bounds the two probabilities by Clopper and Pearson,
    each at half the risk, so that nothing has to be paid for the choice.

    Args:
        in_scores, out_scores: (n,) and (k,) finite, at least 2 each, in the order drawn; to tell
            a mechanism of epsilon 1 from a broken one takes 10,000 or more.
        delta: from 0 to below 1.
        confidence: chance that the bound holds, between 0 and 1 exclusive.

    Returns:
        Epsilon (natural logarithm), at least 0.

    Raises:
        InputError: if an argument lies outside its range.
    """
    _check_odds(delta, confidence)
    samples = [_finite("in_scores", in_scores), _finite("out_scores", out_scores)]
    if min(map(len, samples)) < 2:
        raise InputError(f"in_scores has {len(samples[0])} and out_scores {len(samples[1])} "
                         "values; each needs at least 2")
    first, second = [s[::2] for s in samples], [s[1::2] for s in samples]
    risk = (1.0 - confidence) / 2
    thresholds = np.unique(np.concatenate(first))
    careful = risk / len(thresholds)  # or some rare event would look best by luck
    choice = [_log_ratios(*pair, thresholds, delta, careful) for pair in _events(*first)]
    event, at = np.unravel_index(int(np.argmax(choice)), (len(choice), len(thresholds)))
    more, less, sign = _events(*second)[event]
    return max(0.0, float(_log_ratios(more, less, sign, thresholds[[at]], delta, risk)[0]))


_Scores = NDArray[np.float64]


def _events(inside: _Scores, outside: _Scores) -> list[tuple[_Scores, _Scores, int]]:
    """List who is to exceed whom, and on which side (1: at or above a threshold, -1: below)."""
    pairs = ((inside, outside), (outside, inside))
    return [(more, less, sign) for more, less in pairs for sign in (1, -1)]


def _log_ratios(more: _Scores, less: _Scores, sign: int, thresholds: _Scores, delta: float,
                risk: float) -> _Scores:
    """Bound log((P[more] - delta) / P[less]) from below at each threshold; -inf if not above."""
    counts = [np.searchsorted(np.sort(s), thresholds, side="left") for s in (more, less)]
    hits, misses = (len(s) - c if sign > 0 else c
                    for s, c in zip((more, less), counts, strict=True))
    low = np.where(hits > 0, beta.ppf(risk, hits, len(more) - hits + 1), 0.0)
    high = np.where(misses < len(less), beta.ppf(1 - risk, misses + 1, len(less) - misses), 1.0)
    with np.errstate(divide="ignore"):
        ratios: _Scores = np.log(np.maximum(low - delta, 0.0)) - np.log(high)
    return ratios


def _pure_bound(correct: int, guesses: int, level: float) -> float:
    """Invert the binomial test of randomised response, which is the worst case at delta 0."""
    if correct == 0:
        return 0.0
    rate = float(beta.ppf(level, correct, guesses - correct + 1))
    return max(0.0, math.log(rate / (1.0 - rate)))


def _chance(correct: int, guesses: int, canaries: int, delta: float, epsilon: float) -> float:
    """Bound the chance of at least `correct` hits under (epsilon, delta), Theorem 5.2.

    Hits are at most binomial, f(v) = P[Binomial(r, e^eps / (1 + e^eps)) >= v], but for a chance
    that delta allows: 2 m delta max_i (f(v - i) - f(v)) / i.
    """
    rate = 1.0 / (1.0 + math.exp(-epsilon))
    below = binom.pmf(np.arange(correct), guesses, rate)  # (v,): P[exactly 0 ... v - 1]
    gains = np.cumsum(below[::-1]) / np.arange(1, correct + 1)
    return float(binom.sf(correct - 1, guesses, rate) + 2 * canaries * delta * gains.max())


def _finite(name: str, values: ArrayLike) -> _Scores:
    """Return a vector of finite numbers or raise InputError."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(f"{name} has shape {array.shape}; it must be a vector of finite numbers")
    return array


def _check_odds(delta: float, confidence: float) -> None:
    """Raise InputError unless delta and confidence are in range."""
    if delta != 0.0:
        check_delta(delta)
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence is {confidence}; it must lie between 0 and 1, both excluded")
