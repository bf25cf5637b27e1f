"""Sex and age band by a linear probe on embeddings (Alain & Bengio 2016).

Of people who are enrolled, knowing who it is tells the rest; so the figure of strangers stands
beside it: the probe then learned from other people alone.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from common.audits.attributes import attribute
from common.results import Estimate

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_MOST = 4000  # windows that a probe is fitted to, drawn by seed
_FOLDS = 5


def linear_probe(enrolled: Floats, label: Ints, patient: Ints, probes: Floats, probe_label: Ints,
                 probe_patient: Ints, classes: int, seed: int = 0) -> dict[str, Estimate]:
    """What a probe fitted to enrolled windows tells of the others.

    Args:
        enrolled, probes: embeddings, [m, d] and [n, d].
        label, patient: of the enrolled, [m]; a label is -1 where unknown.
        probe_label, probe_patient: of the probes, [n].
        classes: number of labels.
        seed: of the draw of windows.

    Returns:
        enrolled: accuracy, the probes' patients being among the enrolled.
        strangers: the same by probes that saw no window of the patient, in five folds of patients.
    """
    known, asked = np.flatnonzero(label >= 0), np.flatnonzero(probe_label >= 0)
    everybody = np.full((len(probes), classes), np.nan)
    everybody[asked] = _fitted(enrolled, label, known, classes, seed, probes[asked])
    others = of_strangers(enrolled, label, patient, probes, probe_label, probe_patient, classes,
                          seed)
    found = {}
    for name, one in (("enrolled", everybody), ("strangers", others)):
        answered = np.where(np.isnan(one[:, 0]), -1, probe_label)
        found[name] = attribute(one, answered, probe_patient)
    return found


def of_strangers(enrolled: Floats, label: Ints, patient: Ints, probes: Floats, probe_label: Ints,
                 probe_patient: Ints, classes: int, seed: int = 0) -> NDArray[np.float64]:
    """Probabilities by probes that saw no window of the patient, [n, classes].

    NaN where the probe's own label is unknown, or the other people have fewer than two labels, or
    there are fewer than five people. Arguments are those of `linear_probe`.
    """
    known, asked = np.flatnonzero(label >= 0), np.flatnonzero(probe_label >= 0)
    scores = np.full((len(probes), classes), np.nan)
    if len(np.unique(probe_patient[asked])) >= _FOLDS:
        for rows in _folds(asked, probe_label[asked], probe_patient[asked], seed):
            others = known[~np.isin(patient[known], probe_patient[rows])]
            scores[rows] = _fitted(enrolled, label, others, classes, seed, probes[rows])
    return scores


def _folds(rows: Ints, label: Ints, patient: Ints, seed: int) -> list[Ints]:
    """Rows in five folds of patients; a label with fewer of them is in some folds only."""
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return [rows[fold] for _, fold in folds.split(rows, label, patient)]


def _fitted(enrolled: Floats, label: Ints, rows: Ints, classes: int, seed: int,
            probes: Floats) -> NDArray[np.float64]:
    """Scores of the probes [n, classes]; NaN where the rows have fewer than two labels."""
    scores = np.full((len(probes), classes), np.nan)
    rows = np.random.default_rng(seed).permutation(rows)[:_MOST]
    if len(np.unique(label[rows])) >= 2 and len(probes):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # its iterations are a budget
            model = _model().fit(enrolled[rows], label[rows])
        scores[:] = 0.0
        scores[:, model.classes_] = model.predict_proba(probes)
    return scores


def _model() -> Pipeline:
    """Balanced, so that it does not live off the more frequent label."""
    return make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler(),
                         LogisticRegression(max_iter=300, class_weight="balanced"))
