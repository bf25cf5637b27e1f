"""What the terminal shows: how far, and how long still."""

import io

import pytest
from rich.console import Console

from common.config import Settings
from common.protocol import STAGES
from simulations.progress import Bars


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test sets by hand."""
    now = [0.0]
    monkeypatch.setattr("simulations.progress.time.monotonic", lambda: now[0])
    return now


def shown(settings, folder, clock, rounds, hospitals=4):
    """Lines of a run that takes 2 s a round."""
    out = io.StringIO()
    with Bars(settings, Console(file=out, width=120), folder) as bars:
        bars("prepare", hospitals, hospitals)
        for stage, number in rounds:
            clock[0] += 2
            bars(stage, number, settings.stage(stage).rounds)
    return out.getvalue().splitlines()


def all_rounds(settings):
    return [(stage, number + 1) for stage in STAGES
            for number in range(settings.stage(stage).rounds)]


def test_time_left_falls_to_zero(tmp_path, clock):
    settings = Settings()
    rounds = all_rounds(settings)
    lines = shown(settings, tmp_path, clock, rounds)
    assert "diagnosis 1/3, 4 hospitals" in lines[1]
    assert f"about {2 * (len(rounds) - 1)} s of training left" in lines[1]
    assert "about 0 s of training left" in lines[-1]


def test_a_resumed_run_counts_only_what_is_left(tmp_path, clock):
    settings = Settings()
    lines = shown(settings, tmp_path, clock, all_rounds(settings)[10:])
    assert f"about {2 * (len(all_rounds(settings)) - 11)} s of training left" in lines[1]


def test_local_training_counts_every_hospital(tmp_path, clock):
    settings = Settings(training="local")
    rounds = all_rounds(settings) * 2
    lines = shown(settings, tmp_path, clock, rounds, hospitals=2)
    assert f"about {2 * (len(rounds) - 1)} s of training left" in lines[1]
    assert "about 0 s of training left" in lines[-1]


def test_one_hospital_is_not_many(tmp_path, clock):
    settings = Settings(training="pooled")
    assert "1/3, 1 hospital " in shown(settings, tmp_path, clock, [("sex", 1)], hospitals=1)[1]
