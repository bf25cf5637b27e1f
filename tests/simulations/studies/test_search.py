"""The search tries a method's own settings first and counts what was completed, across calls."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from torch import nn

from common.anonymizers.contract import Frozen, Labelled, Range
from common.config import Rean, Settings
from common.ecg.beats import no_beats
from common.errors import InputError
from simulations.studies.releases import FITTED, defaults, new_rean
from simulations.studies.search import Budget, search

DATA = Labelled(np.random.default_rng(0).random((12, 1, 8), dtype=np.float32), 100.0,
                *(np.arange(12) % n for n in (16, 3, 3, 2, 5)), no_beats(12))
NETWORKS = Frozen(*(nn.Sequential(nn.Flatten(), nn.Linear(8, n)) for n in (4, 3, 2, 5)))
SPACE = {"share": Range(0.01, 1.0)}


class Fade:
    """Takes a share of the amplitude away: the less, the nearer to the corner."""

    def __init__(self, share: float = 0.01) -> None:
        self.share = share

    def fit(self, *_: object) -> None:
        """Nothing is learned."""

    def anonymize(self, data: Labelled, seed: int = 0) -> np.ndarray:
        return data.x * np.float32(1 - self.share)


def tried(folder: Path, trials: int, minutes: float = 0.0, method=Fade, default=0.01):
    """What a search finds, and the settings that it made a method of."""
    made = []

    def make(values):
        made.append(values["share"])
        return method(**values)

    found = search("fade", make, SPACE, {"share": default}, DATA, DATA, NETWORKS,
                   Budget(trials, minutes, 1, 1), folder / "deep" / "trials.sqlite")
    return found, made


def test_what_is_found_is_never_worse_than_the_defaults(tmp_path):
    found, made = tried(tmp_path, 5)
    assert made[0] == 0.01 and len(set(made)) == 5
    assert found.settings == {"share": 0.01} and found.trials == 5 and found.minutes > 0
    other, made = tried(tmp_path / "other", 5, default=0.9)
    assert made[0] == 0.9 and other.settings == {"share": min(made)} and min(made) < 0.9


def test_one_trial_is_completed_whatever_the_clock_says(tmp_path):
    found, made = tried(tmp_path, 5, minutes=1e-9)
    assert found.trials == 1 and found.settings == {"share": 0.01} and made == [0.01]
    assert 0 < found.minutes < 1
    again, made = tried(tmp_path, 5, minutes=1e-9)  # the minutes are those of all calls
    assert again == found and made == []


def test_an_interrupted_trial_does_not_count(tmp_path):
    def interrupted_at(number):
        count = iter(range(100))

        def method(share):
            if next(count) == number:
                raise KeyboardInterrupt
            return Fade(share)

        return method

    for number in (0, 2):  # during the defaults, and later
        with pytest.raises(KeyboardInterrupt):
            tried(tmp_path, 4, method=interrupted_at(number))
    found, made = tried(tmp_path, 4)
    assert len(made) == 2 and found.trials == 4 and found.settings == {"share": 0.01}


def test_a_fit_that_diverges_is_the_worst(tmp_path):
    found, made = tried(tmp_path, 3, method=lambda share: Fade(np.nan if share < 0.02 else share))
    assert len(made) == found.trials == 3 and found.settings["share"] > 0.02


def test_a_default_outside_its_range_is_refused(tmp_path):
    with pytest.raises(InputError, match="fade's share is 2.0; a search allows 0.01 to 1.0"):
        tried(tmp_path, 3, default=2.0)


def test_the_defaults_of_every_method():
    bench = SimpleNamespace(settings=Settings(rean=Rean(privacy=0.7)))
    bench.rean = new_rean(bench, {}).network
    for name, (_, space) in FITTED.items():
        own = defaults(bench, name)
        assert own.keys() == space.keys()
        assert all(r.low <= own[key] <= r.high for key, r in space.items())
    assert defaults(bench, "rean")["privacy"] == 0.7
    assert defaults(bench, "pp_vae") == {"beta": 0.1, "privacy": 0.1}
