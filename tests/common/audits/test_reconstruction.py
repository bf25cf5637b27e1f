"""Scores of reconstructions: known likeness, and none where there is none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.audits.reconstruction import batches, correlations, likeness, mean_beats, shapes


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@given(st.integers(0, 59), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_correlation_is_numpys_and_finds_a_rotation(shift, seed):
    a, b = noise(3, 2, 60, seed=seed), noise(4, 2, 60, seed=seed + 1)
    expected = np.corrcoef(a.reshape(3, -1), b.reshape(4, -1))[:3, 3:]
    assert correlations(a, b)[0] == pytest.approx(expected)
    turned = np.roll(a, -shift, axis=2) * 3 + 1
    value, at = correlations(a, turned, 60)
    assert np.diag(value) == pytest.approx(1) and np.diag(at).tolist() == [shift] * 3


def test_a_small_reach_does_not_find_a_far_rotation():
    a = noise(1, 1, 100)
    far = np.roll(a, 30, axis=2)
    assert correlations(a, far, 10)[0][0, 0] < 0.5 < correlations(a, far, 30)[0][0, 0]
    assert correlations(a, np.ones((1, 1, 100)))[0][0, 0] == 0
    assert correlations(a, np.full((1, 1, 100), np.nan))[0][0, 0] == 0


def test_each_reconstruction_is_used_once():
    targets = noise(4, 1, 50)
    order = [2, 0, 3, 1]
    like = likeness(targets, targets[order])
    assert [order[i] for i in like.found] == [0, 1, 2, 3]
    assert like.correlation == pytest.approx(1) and like.prd == pytest.approx(0, abs=1e-6)
    twice = likeness(targets[[0, 1]], targets[[0, 0]])
    assert sorted(twice.found.tolist()) == [0, 1] and twice.correlation.min() < 0.5


def test_prd_is_taken_at_the_best_rotation():
    x = np.ones((1, 1, 40)) + 0.1 * noise(1, 1, 40)
    like = likeness(x, np.roll(1.1 * x, 7, axis=2))
    assert like.prd[0] == pytest.approx(10) and like.rotated[0] == pytest.approx(1)
    assert like.correlation[0] < 0.9


def test_batches_stand_beside_other_peoples():
    targets = [noise(3, 1, 80, seed=i) for i in range(4)]
    others = [[noise(3, 1, 80, seed=50 + i)] for i in range(4)]
    who = [np.full(3, i) for i in range(4)]
    good = batches(targets, targets, others, who)
    assert good["correlation"].value == pytest.approx(1) and good["correlation"].n == 12
    assert abs(good["correlation"].chance) < 0.15 < good["rotated"].chance < 0.6
    assert good["prd"].value == pytest.approx(0, abs=1e-6) and good["prd"].chance > 80
    anyone = batches(targets, [many[0] for many in others], others, who)
    assert anyone["correlation"].chance == pytest.approx(1)  # of what was found, not of the target
    blind = batches(targets, [noise(3, 1, 80, seed=99 + i) for i in range(4)], others, who)
    assert blind["rotated"].value == pytest.approx(blind["rotated"].chance, abs=0.1)


def test_a_generic_beat_is_no_success():
    everyone = 5 * noise(1, 1, 80) + noise(10, 1, 80, seed=1)
    own = shapes(everyone, everyone, np.arange(10))
    generic = shapes(np.repeat(everyone.mean(0)[None], 10, axis=0), everyone, np.arange(10))
    assert own["nearest"].value == 1 and own["correlation"].value == pytest.approx(1)
    assert own["nearest"].chance == pytest.approx(0.1)
    assert generic["correlation"].value > 0.9  # high, and as high with the others
    assert generic["correlation"].value == pytest.approx(generic["correlation"].chance, abs=0.02)
    assert generic["nearest"].value == pytest.approx(0.1, abs=1e-9)


def test_no_beat_is_no_likeness_and_the_unknown_take_no_part():
    everyone = noise(4, 1, 80)
    everyone[1] = np.nan
    found = shapes(np.full((4, 1, 80), np.nan), everyone, np.arange(4))
    assert found["nearest"].value == 0 and found["correlation"].value == 0
    assert found["nearest"].n == 3 and found["nearest"].chance == pytest.approx(1 / 3)


def test_mean_beats_are_those_of_the_patients():
    rate, width = 100, (3.0, 6.0)
    time = np.arange(800) / rate
    x = np.stack([np.sum([np.exp(-((time - at) * rate / width[i % 2]) ** 2)
                          for at in np.arange(0.35 + 0.02 * i, 8, 0.8)], axis=0)
                  for i in range(6)]).astype(np.float32)[:, None]
    owner = np.arange(6) % 2
    found = mean_beats(x, owner, np.array([0, 1, 7]), rate)
    assert found.shape == (3, 1, 82) and np.isnan(found[2]).all()
    assert (found[:2, 0].argmax(1) == 30).all()
    widths = (found[:2, 0] > 0.5 * found[:2, 0].max(1, keepdims=True)).sum(1)
    assert widths[1] > 1.5 * widths[0]
