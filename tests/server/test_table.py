"""Cells of the result table."""

import pytest

from server.report.table import cell, prose


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
