"""One search for every method: the same trials, the same minutes, toward the ideal corner."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from common.anonymizers.contract import Anonymizer, Effort, Floats, Frozen, Labelled, Range
from common.audits.corner import Point, symmetric_corner_distance
from common.audits.utility import prd
from common.config import Training
from common.ecg.labels import decided
from common.errors import InputError
from common.training import predict

Make = Callable[[Mapping[str, float]], Anonymizer]


@dataclass(frozen=True)
class Budget:
    """What every learned method may spend on its settings.

    Args:
        trials: settings that are tried, the method's own among them.
        minutes: of trials, over all calls, after which no further one begins; 0: no limit.
        steps: of the optimizer in each trial; 0: a third of `fit_steps`. REAN tried for too short
            a time finds that nothing beats doing nothing.
        fit_steps: of the fit with the settings found; 0: as many as the run trains its own REAN.
        batch: windows a step.
        seed: of the search and the fits.
    """

    trials: int
    minutes: float
    steps: int = 0
    fit_steps: int = 0
    batch: int = 32
    seed: int = 0

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InputError(f"trials is {self.trials}; allowed is 1 or more")
        for name in ("minutes", "steps", "fit_steps"):
            if getattr(self, name) < 0:
                raise InputError(f"{name.replace('_', '-')} is {getattr(self, name)}; allowed is 0 "
                                 "(no limit, or the default) or more")

    def filled(self, own: Training, windows: int) -> Budget:
        """With numbers of steps for the zeros.

        Args:
            own: how the run trains its own REAN.
            windows: in its training part.
        """
        full = self.fit_steps or own.rounds * own.epochs * -(-windows // own.batch)
        return replace(self, steps=self.steps or max(1, full // 3), fit_steps=full)

    @property
    def effort(self) -> Effort:
        """Of each trial."""
        return Effort(self.steps, self.batch, self.seed)

    @property
    def final(self) -> Effort:
        """Of the fit with the settings found."""
        return Effort(self.fit_steps, self.batch, self.seed)


@dataclass(frozen=True)
class Found:
    """The best settings and their distance; trials that were completed, and their minutes."""

    settings: dict[str, float]
    distance: float
    trials: int
    minutes: float


def point(frozen: Frozen, data: Labelled, released: Floats) -> Point:
    """What the training signal says of a release; windows with unknown labels take no part."""
    found = {}
    truths = {"identity": data.identity, "sex": data.sex, "age": data.age,
              "diagnosis": decided(data.allowed.astype(np.uint8))}
    for name, truth in truths.items():
        answer = predict(getattr(frozen, name), released).argmax(1).numpy()
        known = truth >= 0
        found[name] = float(np.mean((answer == truth)[known])) if known.any() else 0.0
    return Point(found["identity"], found["sex"], found["age"], found["diagnosis"],
                 prd(data.x, released, data.patient).value)


def search(name: str, make: Make, space: Mapping[str, Range], defaults: Mapping[str, float],
           train: Labelled, validation: Labelled, frozen: Frozen, budget: Budget,
           storage: Path) -> Found:
    """Tree-structured Parzen search for the settings nearest to the corner (d_sym).

    The defaults come first, whatever the clock says: what is found is never worse on validation.

    Args:
        name: of the method; a study of this name that the storage holds goes on.
        make: settings -> a method to fit.
        space: what may be tried.
        defaults: the method's own settings.
        train: windows to fit on.
        validation: windows to judge by; test windows are never seen.
        frozen: the training signal.
        budget: trials and minutes.
        storage: SQLite file of all trials.

    Raises:
        InputError: a default lies outside its range.

    Source: Bergstra et al. (2011); Akiba et al. (2019), optuna.
    """
    for key, r in space.items():
        if not r.low <= defaults[key] <= r.high:
            raise InputError(f"{name}'s {key} is {defaults[key]}; a search allows {r.low} to "
                             f"{r.high}")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage.parent.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=f"sqlite:///{storage}", study_name=name, load_if_exists=True,
        sampler=optuna.samplers.TPESampler(
            # By default the first ten are drawn at random, which may be all there are.
            n_startup_trials=min(10, 1 + budget.trials // 3), seed=budget.seed))
    clean = point(frozen, validation, validation.x)
    chance = {"reid": 1 / (int(train.identity.max()) + 1), "age": 0.2}

    def distance(trial: optuna.Trial) -> float:
        values = {key: trial.suggest_float(key, r.low, r.high, log=r.log)
                  for key, r in space.items()}
        method = make(values)
        method.fit(train, frozen, budget.effort)
        found = point(frozen, validation, method.anonymize(validation, seed=trial.number))
        trial.set_user_attr("point", found.__dict__)
        value = symmetric_corner_distance(clean, found, chance)
        return value if math.isfinite(value) else math.inf  # a fit that diverged was tried, too

    done, spent = _completed(study)
    if not done:
        study.enqueue_trial(dict(defaults))
    while done < budget.trials and (not budget.minutes or spent < budget.minutes):
        study.optimize(distance, n_trials=1)
        done, spent = _completed(study)
    best: dict[str, Any] = study.best_trial.params
    return Found(best, float(study.best_value), done, spent)


def _completed(study: optuna.Study) -> tuple[int, float]:
    """Trials that ran to their end, and the minutes they took; an interrupted one is neither."""
    trials = study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    return len(trials), sum(t.duration.total_seconds() for t in trials if t.duration) / 60
