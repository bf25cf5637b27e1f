import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from common.audits.auroc import auroc


@given(st.integers(2, 40), st.integers(0, 2**31 - 1))
def test_agrees_with_scikit_learn(n, seed):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    score = np.round(rng.random(n), 1)  # with ties
    weights = rng.integers(0, 4, (5, n)).astype(float)
    for value, w in zip(auroc(positive, score, weights), weights, strict=True):
        kept = w > 0
        if len(np.unique(positive[kept])) < 2:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(
                roc_auc_score(positive[kept], score[kept], sample_weight=w[kept]))


def test_nothing_gives_nan():
    assert np.isnan(auroc(np.zeros(0, bool), np.zeros(0), np.zeros((2, 0)))).all()
