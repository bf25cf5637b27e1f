"""Canaries of several hospitals are one attack, and an account below what they prove is named."""

from common.privacy.lower_bound import epsilon_lower_bound
from server.canary_bound import lower_bound, refuted
from server.report.account_figure import bounds, most_at
from server.report.table import accounts as said


def account(correct, claimed, low):
    return {"unit": "patient", "epsilon": 2 * claimed, "patient": claimed, "delta": 1e-5,
            "releases": 1, "cap": 8.0, "lower_bound": low, "canaries": {
                "count": 100, "correct": correct, "guesses": 20, "confidence": 0.95}}


def test_guesses_of_all_hospitals_add_up():
    found = lower_bound({"a": account(20, 8.0, 1.8), "b": account(19, 8.0, 1.4)})
    assert (found["correct"], found["guesses"], found["count"]) == (39, 40, 200)
    assert found["epsilon"] == epsilon_lower_bound(39, 40, 200, 1e-5, 0.95) > 1.8
    assert lower_bound({"a": {"patient": 1.0}}) == {} == lower_bound({})


def test_a_bound_above_its_account_is_a_warning():
    fine = {"a": account(20, 8.0, 1.8), "b": account(20, 8.0, 1.8)}
    assert refuted(fine, lower_bound(fine)) == []
    wrong = {"a": account(20, 1.0, 1.8), "b": account(20, 1.9, 1.8)}
    lines = refuted(wrong, lower_bound(wrong))
    assert ["account of a " in lines[0], "account of all hospitals" in lines[1]] == [True, True]
    assert len(lines) == 2 and "1.800" in lines[0] and "claims 1.000" in lines[0]


def test_the_report_prints_both_sides_and_draws_them():
    accounts = {"a": account(20, 8.0, 1.8)}
    metrics = {"privacy": accounts, "lower_bound": lower_bound(accounts), "membership": {}}
    lines = said(metrics)
    assert "at least 1.800 by 100 canaries (20 of 20 guesses right, 95 % confidence)" in lines[0]
    assert "100 canaries: epsilon of at least" in lines[1]
    drawn = bounds(metrics)
    assert "epsilon 8.00 at most" in drawn and "at least (95 %)" in drawn
    assert bounds({"privacy": {"a": {"patient": "not bounded"}}}) == ""


def test_the_curve_is_what_epsilon_allows():
    import numpy as np

    rate = np.array([0.0, 0.1, 0.5, 1.0])
    np.testing.assert_allclose(most_at(rate, 0.0, 0.0), rate)
    np.testing.assert_allclose(most_at(rate, np.log(2), 0.0), [0, 0.2, 0.75, 1])
    assert most_at(rate, 1000.0, 0.0).tolist() == [0, 1, 1, 1]
