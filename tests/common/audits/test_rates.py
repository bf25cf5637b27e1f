"""Rates of scores: each against a value known by hand or by a library."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from common.audits.rates import auc, proportion, rates, roc


@pytest.mark.parametrize(("k", "n"), [(0, 3), (1, 3), (3, 3), (0, 1), (7, 20), (19, 20),
                                      (50, 1000)])
def test_an_interval_is_clopper_pearsons_where_each_patient_counts_once(k, n):
    found = proportion(np.arange(n) < k, np.arange(n))
    exact = binomtest(k, n).proportion_ci(0.95, "exact")
    assert (found.value, found.n) == (k / n, n)
    assert found.low == pytest.approx(exact.low, abs=1e-12)
    assert found.high == pytest.approx(exact.high, abs=1e-12)


def test_windows_of_a_patient_that_agree_count_as_one():
    patient = np.repeat(np.arange(10), 30)
    found, alone = proportion(patient < 3, patient), proportion(np.arange(10) < 3, np.arange(10))
    assert found.n == 300 and found.value == pytest.approx(alone.value)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.05)
    mixed = proportion(np.arange(300) % 10 < 3, patient)  # three of ten in every patient
    assert mixed.high - mixed.low < 0.12 < alone.high - alone.low
    certain = proportion(np.zeros(300, bool), patient)  # nothing varies: as wide as ten patients
    assert certain.high == pytest.approx(binomtest(0, 10).proportion_ci(0.95, "exact").high)


def test_no_element_gives_no_proportion():
    found = proportion(np.zeros(0, bool), np.zeros(0, int))
    assert math.isnan(found.value) and found.n == 0


def test_roc_of_a_case_by_hand():
    score = np.array([0.9, 0.8, 0.8, 0.3, 0.1])
    member = np.array([True, True, False, True, False])
    false, true, threshold = roc(score, member)
    assert false.tolist() == [0, 0, 1, 1, 2] and true.tolist() == [0, 1, 2, 3, 3]
    assert threshold.tolist() == [np.inf, 0.9, 0.8, 0.3, 0.1]


def test_rates_of_a_case_by_hand():
    """Three non-members: .33 is the lowest rate, and no tie is split in the attacker's favour."""
    score = np.array([5.0, 4, 3, 2, 4.5, 1.5, 1])
    member = np.array([True, True, True, True, False, False, False])
    found = rates(score, member, np.arange(7))
    assert [at["at"] for at in found["at"]] == [pytest.approx(1 / 3)]
    assert found["at"][0]["fpr"].value == pytest.approx(1 / 3)
    assert found["at"][0]["tpr"].value == 1 and found["at"][0]["tpr"].chance == pytest.approx(1 / 3)
    assert found["roc"] == {"fpr": [0, 1 / 3, 2 / 3, 1], "tpr": [0.25, 1, 1, 1]}
    tied = rates(np.zeros(7), member, np.arange(7))
    assert tied["at"][0]["tpr"].value == 0 and tied["at"][0]["fpr"].value == 0


@pytest.mark.parametrize(("n", "seen"), [(1, []), (2, [0.5]), (20, [0.05, 0.1]),
                                         (500, [0.002, 0.01, 0.1]), (1000, [0.001, 0.01, 0.1])])
def test_only_rates_that_n_allows_are_shown(n, seen):
    member = np.arange(n + 5) < 5
    found = rates(np.random.default_rng(0).normal(size=n + 5), member, np.arange(n + 5))
    assert [at["at"] for at in found["at"]] == pytest.approx(seen)
    assert all(at["fpr"].value <= at["at"] + 1e-12 for at in found["at"])


def test_one_side_alone_has_no_rates():
    found = rates(np.ones(3), np.ones(3, bool), np.arange(3))
    assert math.isnan(found["auc"].value) and found["at"] == [] and found["roc"]["fpr"] == []


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_auc_is_scikit_learns_and_the_area_under_the_roc(pairs):
    score = np.array([s for s, _ in pairs], dtype=float)
    member = np.array([m for _, m in pairs])
    if member.all() or not member.any():
        return
    false, true, _ = roc(score, member)
    area = np.trapezoid(true / member.sum(), false / (~member).sum())
    expected = roc_auc_score(member, score)
    assert auc(score, member, np.arange(len(score))).value == pytest.approx(expected)
    assert area == pytest.approx(expected)


def test_a_long_roc_keeps_its_ends_and_its_low_rates():
    generator = np.random.default_rng(0)
    member = np.arange(4000) < 2000
    found = rates(generator.normal(size=4000) + member, member, np.arange(4000))["roc"]
    assert len(found["fpr"]) <= 100 and found["fpr"][-1] == found["tpr"][-1] == 1
    assert found["fpr"][:3] == pytest.approx([0, 1 / 2000, 2 / 2000])


def test_auc_resamples_patients_not_windows():
    patient = np.repeat(np.arange(8), 50)
    member = patient < 4
    score = np.random.default_rng(0).normal(size=8)[patient]  # windows of a patient agree
    wide, names = auc(score, member, patient), np.arange(400)
    narrow = auc(score, member, names)
    assert wide.value == pytest.approx(narrow.value) and wide.n == 8
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
