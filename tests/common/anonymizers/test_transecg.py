"""Noise on the heartbeat segments that the frozen identity network looks at, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from common.anonymizers.additive_noise import GaussianNoise
from common.anonymizers.contract import Effort
from common.anonymizers.transecg import TransECG, rollout, segments
from common.audits.utility import prd
from common.config import Settings
from common.ecg.beats import no_beats
from common.ecg.delineation import r_peaks
from common.models.classifier import build


def fitted(hospital, scale=0.17, share=0.5):
    method = TransECG(scale, share)
    method.fit(hospital.train, hospital.frozen, Effort(1))
    return method


def segment_share(data):
    """Samples in any QRS or P-R segment of the annotated beats, [n, L]."""
    inside = np.zeros((len(data), data.x.shape[2]), dtype=bool)
    for i, row in enumerate(inside):
        for time in data.beats.of(i)[0]:
            peak = round(time * data.rate)
            row[max(0, peak - 20) : max(0, peak + 6)] = True  # 0.20 s before to 0.06 s after
    return inside


def test_noise_has_its_scale_on_marked_segments_and_is_nowhere_else(hospital):
    method, test = fitted(hospital, 0.2), hospital.test
    released, marked = method.anonymize(test, seed=1), method.marked(test)
    assert released.shape == test.x.shape and released.dtype == np.float32
    change = (released - test.x)[:, 0]
    assert np.array_equal(change != 0, marked) and not marked[~segment_share(test)].any()
    assert change[marked].std() == pytest.approx(0.2, rel=0.03)
    assert np.array_equal(released, method.anonymize(test, seed=1))
    assert not np.array_equal(released, method.anonymize(test, seed=2))


def test_share_takes_the_segments_that_attention_ranks_highest(hospital):
    test = hospital.test
    every, half = fitted(hospital, share=1.0), fitted(hospital, share=0.5)
    assert np.array_equal(every.marked(test), segment_share(test))
    marked, attention = half.marked(test), half.attention(test.x)
    assert not (marked & ~every.marked(test)).any()
    assert 0.4 < marked.sum() / every.marked(test).sum() < 0.6
    for i in range(10):
        spans = segments(np.rint(test.beats.of(i)[0] * 100).astype(np.int64), 100, 800)
        means = np.array([attention[i, a:b].mean() for a, b in spans])
        chosen = np.array([marked[i, a:b].all() for a, b in spans])
        assert chosen.sum() >= np.ceil(0.5 * len(spans))
        assert set(np.argsort(-means)[: int(np.ceil(0.5 * len(spans)))]) <= set(*chosen.nonzero())


def test_rollout_follows_attention_through_the_blocks():
    """Token 1 reaches the class token by itself, token 2 only through token 1."""
    first, second = torch.zeros(1, 2, 3, 3), torch.zeros(1, 2, 3, 3)
    first[0, :, [0, 1, 2], [0, 2, 2]] = 1.0
    second[0, :, [0, 1, 2], [1, 1, 2]] = 1.0
    assert torch.allclose(rollout([first, second]), torch.tensor([[0.25, 0.25]]))


def test_peaks_are_found_where_nothing_is_annotated(hospital):
    test = hospital.test
    found = [r_peaks(x[0], test.rate) for x in test.x]
    known = [test.beats.of(i)[0] for i in range(len(test))]
    near = [np.abs(a[:, None] - b) < 0.075 for a, b in zip(known, found, strict=True)]
    assert sum(n.any(1).sum() for n in near) > 0.95 * sum(map(len, known))
    assert sum(n.any(0).sum() for n in near) > 0.95 * sum(map(len, found))
    blind = replace(test, beats=no_beats(len(test)))
    method = fitted(hospital, share=1.0)
    assert (method.marked(blind) == method.marked(test)).mean() > 0.85


@pytest.mark.parametrize("rate", [50, 100, 250])
def test_windows_without_a_beat_are_released_as_they_are(hospital, rate):
    for flat in (np.zeros((2, 8 * rate)), np.full((1, 8 * rate), 0.5), np.eye(1, 8 * rate) * 0):
        assert len(r_peaks(flat[0].astype(np.float32), rate)) == 0
    first = hospital.test.select(np.arange(2))
    flat = replace(first, x=np.full_like(first.x, 0.5), beats=no_beats(2))
    method = fitted(hospital)
    assert not method.marked(flat).any() and np.array_equal(method.anonymize(flat), flat.x)


def test_all_leads_change_at_the_same_samples(hospital):
    one = hospital.test.select(np.arange(3))
    two = replace(one, x=np.concatenate([one.x, 1 - one.x], axis=1))
    networks = replace(hospital.frozen, identity=build("identity", Settings(), 2, 6, 0))
    method = TransECG()
    method.fit(two, networks, Effort(1))
    change = method.anonymize(two) != two.x
    assert change.any() and np.array_equal(change[:, 0], change[:, 1])


def test_a_network_without_attention_is_refused(hospital):
    with pytest.raises(TypeError, match="ECGViT"):
        TransECG().fit(hospital.train, replace(hospital.frozen, identity=hospital.frozen.diagnosis),
                       Effort(1))


def test_it_hides_less_than_undirected_noise_of_its_prd_and_costs_as_much(hospital):
    """Identity .90 -> .70 at a PRD of 45 %, where Gaussian noise leaves .56.

    The frozen diagnosis, which never saw noise, falls from an AUROC of .99 to .7 or .8 in both.
    """
    test, patient = hospital.test, hospital.test.patient
    clean = hospital.accuracy("identity", test.x)
    method, gaussian = fitted(hospital, 0.3, 1.0), GaussianNoise(0.17)
    released = [method.anonymize(test, seed) for seed in range(3)]
    noisy = [gaussian.anonymize(test, seed) for seed in range(3)]
    assert prd(test.x, released[0], patient).value == pytest.approx(
        prd(test.x, noisy[0], patient).value, rel=0.1)
    identity = np.mean([hospital.accuracy("identity", x) for x in released])
    assert identity < clean - 0.1
    assert np.mean([hospital.accuracy("identity", x) for x in noisy]) < identity
    useful, undirected = (np.mean([hospital.auroc(x) for x in versions])
                          for versions in (released, noisy))
    assert useful < hospital.auroc(test.x) - 0.1
    assert useful == pytest.approx(undirected, abs=0.15)
