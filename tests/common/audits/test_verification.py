"""Error rates against sets of claims whose rates can be counted."""

import numpy as np
import pytest

from common.audits.matching import Matches
from common.audits.verification import verification


def claims(own, others):
    n = len(own)
    return Matches(np.zeros(n, np.int64), np.asarray(own, np.float32),
                   np.asarray(others, np.float32), np.arange(n), 2, np.arange(n))


def test_who_is_always_told_apart_has_no_error():
    found = verification(claims(np.full(200, 0.9), np.full((200, 50), 0.1)))
    assert found["eer"].value == 0
    assert found["tar_at_far"]["0.001"].value == 1


def test_similarities_that_say_nothing_give_chance():
    rng = np.random.default_rng(0)
    found = verification(claims(rng.random(4000), rng.random((4000, 50))))
    assert found["eer"].value == pytest.approx(0.5, abs=0.02)
    assert found["tar_at_far"]["0.01"].value == pytest.approx(0.01, abs=0.006)
    assert found["eer"].low < 0.5 < found["eer"].high


def test_two_normal_distributions():
    rng = np.random.default_rng(0)  # d' = 2: EER = Phi(-1) = .159
    found = verification(claims(rng.standard_normal(4000) + 2, rng.standard_normal((4000, 50))))
    assert found["eer"].value == pytest.approx(0.1587, abs=0.01)
    assert found["tar_at_far"]["0.01"].value == pytest.approx(0.372, abs=0.03)  # Phi(2 - 2.326)


def test_equal_similarities_are_no_success():
    found = verification(claims(np.ones(50), np.ones((50, 40))))
    assert found["tar_at_far"]["0.01"].value == 0 and found["eer"].value == 0.5


def test_a_rate_that_too_few_claims_reach_is_not_measured():
    found = verification(claims(np.ones(50), np.zeros((50, 40))))
    assert found["claims"] == 2000 and found["tar_at_far"]["0.001"].n == 0
    assert verification(claims(np.ones(3), np.zeros((3, 0))))["claims"] == 0
