"""Cells of the result table."""

import pytest

from server.report.table import accounts, cell, prose


@pytest.mark.parametrize(("value", "low", "high", "text"), [
    (0.1234, 0.1, 0.15, ".123 .100-.150"),
    (0.9996, 0.99, 1.0, "1.00 .990-1.00"),
    (12.345, None, None, "12.35"),
    (None, None, None, "-"),
])
def test_cell(value, low, high, text):
    assert cell({"value": value, "low": low, "high": high}) == text


def test_prose():
    assert prose({"value": 0.5, "low": 0.4, "high": 0.6}) == ".500 (.400-.600)"


def test_an_account_names_both_units_and_never_prints_what_is_not_bounded():
    def line(unit, patient, window):
        return accounts({"privacy": {"a": {"unit": unit, "patient": patient, "epsilon": window,
                                           "cap": 8.0, "delta": 1e-5, "releases": 3}}})[0]

    assert line("patient", 2.5, 5.25) == ("a: per patient epsilon 2.500, per window epsilon 5.250, "
                                          "of at most 8 per patient, at delta 1e-05 (3 releases)")
    assert line("window", "not bounded", 7.0) == (
        "a: per patient not bounded, per window epsilon 7.000, of at most 8 per window, at delta "
        "1e-05 (3 releases)")
    assert "epsilon" not in line("none", "not bounded", None)
