"""The benchmark of private steps runs, small; no time is judged here."""

from __future__ import annotations

import pytest

from server.overrides import compose_settings
from simulations.benchmarks import private_step
from tests.small import NETWORKS


@pytest.mark.parametrize("stage", private_step.STAGES)
def test_a_step_of_each_kind(stage) -> None:
    ways = private_step.ways(stage, compose_settings(NETWORKS), patients=2, windows=2)
    assert list(ways) == ["plain", "patient", "window"]
    for way in ways.values():
        way()
        way()


def test_ratios_are_medians_within_repeats() -> None:
    taken = {"plain": [1.0, 2.0, 4.0], "patient": [1.0, 3.0, 8.0]}
    assert private_step.ratio(taken, "patient") == 1.5
