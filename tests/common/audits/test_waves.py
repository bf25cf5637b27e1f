from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.audits import waves
from common.audits.waves import matched, median_estimate, r_peaks, waves_agree
from common.ecg.beats import Beats
from common.ecg.delineation import Delineation
from common.errors import InputError
from tests.common.ecg.drawn import RATE, drawn, regular

RR = (0.7, 0.8, 0.9, 1.0, 0.75, 0.85)
TIMES = [regular(rr, first=0.4 + rr / 3) for rr in RR]
PATIENT = np.array([0, 0, 1, 1, 2, 2])


def windows(shift: float = 0.0, qrs: float = 1.0, noise: float = 0.0) -> np.ndarray:
    return np.stack([drawn(times + shift, qrs, noise, seed) for seed, times in enumerate(TIMES)])


def test_identical_windows_agree_perfectly():
    found = waves_agree(windows(), windows(), RATE, PATIENT)
    assert found["windows"] == 6 and found["annotated"] == {}
    for leaf in found["r_peaks"].values():
        assert leaf.value == 1 and leaf.n == 6 and 0 < leaf.chance < 0.8
    for interval in found["intervals"].values():
        assert interval["difference"].value == 0 and interval["within"].value == 1
        assert interval["clean"] == interval["released"] and interval["patients"].value == 0
        assert interval["found"]["clean"].value > 0.8 and interval["patients"].n == 3


def test_a_delay_of_20_ms_moves_no_beat_and_no_interval():
    found = waves_agree(windows(), windows(shift=0.02), RATE, PATIENT)
    assert found["r_peaks"]["sensitivity"].value == 1
    assert found["intervals"]["QRS"]["difference"].value <= 8


def test_a_wider_qrs_moves_its_figure_and_no_beat():
    found = waves_agree(windows(), windows(qrs=1.8), RATE, PATIENT)
    assert found["r_peaks"]["sensitivity"].value == 1
    qrs = found["intervals"]["QRS"]
    assert qrs["difference"].value >= 25 and qrs["within"].value < 0.2
    assert qrs["released"].value > qrs["clean"].value + 25 and qrs["patients"].value >= 25


def test_other_beat_times_are_told_from_other_intervals():
    other = np.stack([drawn(regular(rr * 1.3, first=0.6)) for rr in RR])
    found = waves_agree(windows(), other, RATE, PATIENT)
    assert found["r_peaks"]["sensitivity"].value < 0.6
    assert found["intervals"]["QRS"]["patients"].value <= 8


def test_a_constant_release_has_no_beats():
    found = waves_agree(windows(), np.full_like(windows(), 0.5), RATE, PATIENT)
    assert found["r_peaks"]["sensitivity"].value == 0
    assert np.isnan(found["r_peaks"]["positive_predictivity"].value)
    assert found["failed"]["released"].value == 1 and found["failed"]["clean"].value == 0
    assert found["intervals"]["QT"]["difference"].n == 0
    assert found["intervals"]["QT"]["patients"].n == 0


def test_a_failure_is_counted(monkeypatch):
    nothing = Delineation(np.zeros(0), np.zeros((0, 3)), np.zeros((0, 4)), failed=True)
    answers = iter([waves.delineate(one, RATE) for one in windows()] + [nothing] * 6)
    monkeypatch.setattr(waves, "delineate", lambda *_: next(answers))
    found = waves_agree(windows(), windows(), RATE, PATIENT)
    assert found["failed"]["released"].value == 1 and found["failed"]["clean"].value == 0


def test_noise_lowers_both_figures_against_annotations():
    beats = Beats(np.cumsum([0, *map(len, TIMES)]), np.concatenate(TIMES),
                  np.zeros(sum(map(len, TIMES)), dtype=np.int64))
    found = waves_agree(windows(), windows(noise=1.0), RATE, PATIENT, beats=beats)["annotated"]
    assert found["clean"]["sensitivity"].value == 1
    assert found["released"]["sensitivity"].value < 0.95
    assert found["released"]["positive_predictivity"].value < 0.95


def test_no_more_windows_than_asked_for_and_the_same_ones():
    first, again, other = (waves_agree(windows(), windows(noise=0.2), RATE, PATIENT, most=3,
                                       seed=seed) for seed in (1, 1, 2))
    assert first == again and first["windows"] == 3 and first != other


def test_other_shapes_are_refused():
    with pytest.raises(InputError, match=r"released is \(6, 1, 1000\) with 5 patients; allowed"):
        waves_agree(windows(), windows(), RATE, PATIENT[:5])


times_ = st.lists(st.floats(0, 8), max_size=12).map(lambda values: np.unique(values))


@given(times_, times_)
def test_pairs_are_near_in_order_and_one_to_one(a, b):
    pairs = matched(a, b)
    assert (np.diff(pairs, axis=0) > 0).all()
    assert (abs(a[pairs[:, 0]] - b[pairs[:, 1]]) <= 0.15).all()
    assert len(matched(b, a)) == len(pairs)


def test_r_peaks_of_a_known_case():
    found = r_peaks([np.array([1.0, 2, 3, 4])], [np.array([1.1, 2.2, 3.0])], np.zeros(1, int))
    assert found["sensitivity"].value == 0.5
    assert found["positive_predictivity"].value == pytest.approx(2 / 3)


def test_median_of_clusters():
    values = np.array([5.0, 1, 3, 9, 7])
    found = median_estimate(values, np.arange(5))
    assert found.value == 5 and found.n == 5 and 1 <= found.low < 5 < found.high <= 9
    assert np.isnan(median_estimate(np.zeros(0), np.zeros(0, int)).value)
