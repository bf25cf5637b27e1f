"""The study's row for aggregates: no waveform, so numbers are attacked and diagnosed instead.

Clean and released aggregates are the same numbers, so whoever enrols on clean recordings computes
them himself: there is one attacker, trained on the training part, and it stands both in its set's
figures and in `retrained`. Networks trained on waveforms say nothing here: their figures are None.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from common.anonymizers.aggregates import NAMES, aggregates
from common.anonymizers.contract import Floats, Labelled
from common.audits.attributes import attribute
from common.audits.fiducial import discriminate
from common.audits.matching import match
from common.audits.reidentification import closed_set, identification_rate
from common.audits.utility import diagnosis
from common.ecg.labels import decided
from common.protocol import AGE_BANDS, ARRHYTHMIA_CLASSES, SEXES
from common.results import mean_estimate
from common.training import Indices, seed_from
from server.bundles import Bundles
from simulations.studies.bench import Bench, Progress, keep_array

Scores = NDArray[np.float64]
Measure = Callable[[Scores, Indices], Any]  # scores and rows -> how well a target is told

_PIECE = 200  # windows between two lines of progress
_CANDIDATES: dict[str, Callable[[int], ClassifierMixin]] = {  # all take NaN as a value of its own
    "extra trees, leaf 1": lambda seed: ExtraTreesClassifier(300, random_state=seed),
    "extra trees, leaf 3, all features": lambda seed: ExtraTreesClassifier(
        300, min_samples_leaf=3, max_features=None, random_state=seed),
    "boosting, 40 rounds": lambda seed: HistGradientBoostingClassifier(
        max_iter=40, early_stopping=False, random_state=seed),
}


@dataclass(frozen=True)
class Target:
    """What is told from aggregates.

    Args:
        label: class of each window, -1 where unknown, [n].
        classes: how many there are.
        measure: (scores [rows, classes], rows) -> its figures.
        value: of these figures, the number to choose a classifier by.
    """

    label: Indices
    classes: int
    measure: Measure
    value: Callable[[Any], float]


def aggregates_row(bench: Bench, progress: Progress, workers: int = 2) -> dict[str, Any]:
    """Release, attack and diagnose aggregates; the tree is that of the other methods.

    Args:
        bench: its windows are delineated, 0.1 s each, once: an array that lies in its folder is
            taken.
        progress: told what is done next.
        workers: processes that delineate.
    """
    bundles, started = bench.bundles, time.perf_counter()
    features = keep_array(bench.folder / "methods" / "aggregates" / "released.npy",
                          lambda: delineated(bench.data, workers, progress))
    released = time.perf_counter()
    told, chosen = {}, {}
    for name, target in targets(bundles).items():
        progress(f"aggregates: {len(_CANDIDATES)} classifiers of {name}")
        scores, chosen[name] = tell(target, features, bundles.rows("train"),
                                    bundles.rows("validation"), seed_from(bench.settings, name))
        told[name] = {key: target.measure(scores[rows], rows) for key, rows in bench.sets.items()}
    retrained = {key: {name: told[name][key] for name in told} for key in bench.sets}
    embedded = discriminate(features, bundles.patient, bundles.rows("train"))
    missing = {name: mean_estimate(np.isnan(column), bundles.patient)
               for name, column in zip(NAMES, features.T, strict=True)}
    row: dict[str, Any] = {key: {
        **{name: retrained[key][name] for name in ("reid", "sex", "age")},
        "identification": _identification(bundles, embedded, rows),
        "training_signal": None, "frozen": None, "independent": None, "prd": None,
    } for key, rows in bench.sets.items()}
    return {**row, "retrained": retrained, "classifiers": chosen, "missing": missing,
            "settings": {}, "search": {"trials": len(_CANDIDATES)},
            "fit_s": time.perf_counter() - released,
            "ms_per_window": 1000 * (released - started) / len(bench.data)}


def delineated(data: Labelled, workers: int, progress: Progress) -> Floats:
    """Aggregates of all windows, [n, 14], in processes."""
    pieces = [np.arange(i, min(i + _PIECE, len(data))) for i in range(0, len(data), _PIECE)]
    parts = Parallel(workers, return_as="generator")(
        delayed(aggregates)(data.select(rows)) for rows in pieces)
    done = []
    for rows, part in zip(pieces, parts, strict=True):
        done.append(part)
        progress(f"aggregates: {rows[-1] + 1} of {len(data)} windows delineated")
    return np.concatenate(done)


def targets(bundles: Bundles) -> dict[str, Target]:
    """Identity, sex, age band and arrhythmia class."""
    patient = bundles.patient

    def of(label: Indices, classes: int) -> Target:
        return Target(label, classes, lambda s, rows: attribute(s, label[rows], patient[rows]),
                      lambda found: found.value)

    return {
        "reid": Target(patient, int(patient.max()) + 1,
                       lambda s, rows: closed_set(s, patient[rows], patient[rows]),
                       lambda found: found.value),
        "sex": of(bundles.sex, len(SEXES)),
        "age": of(bundles.age, len(AGE_BANDS)),
        "diagnosis": Target(decided(bundles.allowed), len(ARRHYTHMIA_CLASSES),
                            lambda s, rows: diagnosis(s, bundles.allowed[rows], patient[rows]),
                            lambda found: found["macro_auroc"].value),
    }


def tell(target: Target, features: Floats, train: Indices, validation: Indices,
         seed: int) -> tuple[Scores, dict[str, Any]]:
    """Scores of all windows, [n, classes], by the classifier that does best on validation.

    Returns:
        The scores, and {name, validation: name of each -> its figure there}; a figure that cannot
        be computed (one class only) loses.
    """
    known = train[target.label[train] >= 0]
    best, found, scores = -np.inf, {}, np.zeros((len(features), target.classes))
    chosen = ""
    for name, make in _CANDIDATES.items():
        model = make(seed % 2**31).fit(features[known], target.label[known])
        answer = np.zeros((len(features), target.classes))
        answer[:, model.classes_] = model.predict_proba(features)
        value = target.value(target.measure(answer[validation], validation))
        found[name] = float(value)
        if not chosen or value > best:
            best, chosen, scores = value if np.isfinite(value) else -np.inf, name, answer
    return scores, {"name": chosen, "validation": found}


def _identification(bundles: Bundles, embedded: Floats, rows: Indices) -> Any:
    """Nearest neighbour among the training part; validation lies between it and the test part."""
    enrolled = bundles.rows("train")
    return identification_rate(match(embedded[enrolled], bundles.patient[enrolled], embedded[rows],
                                     bundles.patient[rows]))
