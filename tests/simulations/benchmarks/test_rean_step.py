"""The benchmark of REAN's step and release runs, small; no time is judged here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from server.overrides import compose_settings
from simulations.benchmarks import rean_step
from tests.small import NETWORKS

CPU = torch.device("cpu")
SETTINGS = compose_settings([*NETWORKS, "anonymizer.batch=4"])


def test_the_step_and_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    taken = rean_step.step_times(SETTINGS, CPU, repeats=2)
    assert list(taken) == ["U-Net", "diagnosis", "identity", "sex", "age", "step"]
    assert all(len(times) == 2 and min(times) > 0 for times in taken.values())
    rean_step.show_step(taken, SETTINGS, rean_step.peak_mb(CPU))
    shown = capsys.readouterr().out
    assert "step / sum, allowed 1.15" in shown and "peak memory" in shown


def test_ratios_are_medians_within_repeats() -> None:
    taken = {"a": [1.0, 2.0, 4.0], "b": [1.0, 2.0, 4.0], "step": [2.0, 6.0, 8.0]}
    assert rean_step.step_ratio(taken) == 1.0
    assert rean_step.speed({"REAN": [1.0, 2.0, 4.0], "REACT": [3.0, 8.0, 12.0]}) == 3.0


def test_ways_alternate_and_the_first_round_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    now, order = [0.0], []
    monkeypatch.setattr(rean_step, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def way(name: str, costs: Iterator[float]) -> None:
        order.append(name)
        now[0] += next(costs)

    ways = {name: partial(way, name, iter(costs))
            for name, costs in {"a": [9.0, 1.0, 2.0], "b": [8.0, 3.0, 4.0]}.items()}
    taken = rean_step.alternate(ways, CPU, 2)
    assert order == ["a", "b"] * 3 and taken == {"a": [1.0, 2.0], "b": [3.0, 4.0]}


def test_releases_of_the_same_windows(monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("common.anonymizers.react.ROLLOUTS", 1)
    taken = rean_step.release_times(SETTINGS, CPU, windows=4, repeats=1)
    assert list(taken) == ["REAN", "REACT"] and rean_step.speed(taken) > 1
    rean_step.show_release(taken, 4, rean_step.peak_mb(CPU))
    assert "REACT / REAN, wanted 100" in capsys.readouterr().out
