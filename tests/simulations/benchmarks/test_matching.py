"""The benchmark of matching runs, small; no time is judged here."""

import sys

from simulations.benchmarks import matching


def test_three_galleries_beside_the_bare_product(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["matching", "--windows", "300", "--threads", "1"])
    matching.main()
    shown = capsys.readouterr().out
    assert "300 gallery x 300 probe" in shown and shown.count("1.5)") == 3
