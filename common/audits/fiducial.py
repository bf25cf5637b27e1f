"""Embeddings from hand-made features: what needs no network and no training on waveforms.

Source: fiducial ECG biometrics (Israel et al., 2005): intervals and amplitudes of a window's beats,
weighed by linear discriminants of the enrolled patients.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common.anonymizers.aggregates import aggregate
from common.ecg.delineation import delineate

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def fiducial_features(windows: Floats, rate: float) -> Floats:
    """`aggregates.NAMES` of each window [n, leads, L], [n, 14]; NaN where waves are not found.

    It takes some 0.1 s a window.

    Args:
        windows: in any unit.
        rate: Hz.
    """
    rows = [aggregate(delineate(window, rate)) for window in windows]
    return np.array(rows, dtype=np.float32).reshape(len(windows), -1)


def discriminate(features: Floats, patient: Ints, train: Ints) -> Floats:
    """Embeddings whose nearest neighbours are alike in person, [n, d].

    NaN becomes the median of the training part beside an indicator; linear discriminants of the
    training part's patients weigh the rest. Shrinkage (Ledoit & Wolf 2004) keeps a feature that
    never varies within a patient, such as an indicator, from outweighing all others.

    Args:
        features: [n, f].
        patient: [n].
        train: rows to learn from.
    """
    model = make_pipeline(SimpleImputer(strategy="median", add_indicator=True,
                                        keep_empty_features=True),
                          StandardScaler(),
                          LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto"))
    found: Floats = model.fit(features[train], patient[train]).transform(features)
    return found.astype(np.float32)
