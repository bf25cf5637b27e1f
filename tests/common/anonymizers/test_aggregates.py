from __future__ import annotations

import numpy as np
import pytest

from common.anonymizers.aggregates import NAMES, aggregate, aggregates
from common.anonymizers.contract import Labelled
from common.ecg.beats import no_beats
from common.ecg.delineation import Delineation
from tests.common.ecg.drawn import RATE, drawn, regular


def labelled(*windows: np.ndarray) -> Labelled:
    zeros = np.zeros(len(windows), dtype=np.int64)
    return Labelled(np.stack(windows), RATE, zeros + 1, zeros, zeros, zeros, zeros,
                    no_beats(len(windows)))


def column(features: np.ndarray, name: str) -> np.ndarray:
    [at] = [i for i, other in enumerate(NAMES) if other.split(" (")[0] == name]
    return features[:, at]


def test_a_window_of_known_rhythm():
    found = aggregates(labelled(drawn(regular(0.8)), drawn(regular(1.0))))
    assert found.shape == (2, 14) and found.dtype == np.float32
    assert column(found, "beats").tolist() == [len(regular(0.8)), len(regular(1.0))]
    assert column(found, "mean RR") == pytest.approx([800, 1000], abs=4)
    assert (column(found, "SDNN") < 8).all() and (column(found, "pNN50") == 0).all()
    assert column(found, "R amplitude") == pytest.approx([0.83, 0.83], abs=0.05)


def test_shuffled_intervals_keep_what_has_no_order():
    rr = np.array([.6, .62, .64, .9, .92, .94, .7, .72, .74])
    features = aggregates(labelled(*(drawn(0.5 + np.cumsum(rr[order])) for order in (
        np.arange(9), np.array([0, 4, 1, 5, 2, 6, 3, 7, 8])))))
    assert np.ptp(column(features, "beats")) == 0
    # The first interval of each is the same, and only lies before the first beat.
    for name in ("mean RR", "SDNN", "shortest RR", "longest RR"):
        assert np.ptp(column(features, name)) <= 12
    before, after = column(features, "RMSSD")
    assert after > before + 50 and np.diff(column(features, "pNN50"))[0] > 20


def test_scale_and_offset_change_nothing():
    window = drawn(regular())
    found = aggregates(labelled(window, 0.3 * window + 0.5))
    assert found[0] == pytest.approx(found[1], rel=1e-3, abs=1e-3)


def test_nothing_found_is_nan_and_no_beat():
    found = aggregates(labelled(np.zeros((1, 1000), dtype=np.float32)))
    assert found[0, 0] == 0 and np.isnan(found[0, 1:]).all()


@pytest.mark.parametrize(("beats", "known"), [(1, 1), (2, 4), (3, 7)])
def test_statistics_need_enough_beats(beats, known):
    found = aggregate(Delineation(np.arange(beats) * 0.8, np.full((beats, 3), np.nan),
                                  np.full((beats, 4), np.nan)))
    assert np.isfinite(found).sum() == known and len(found) == len(NAMES)


def test_no_window():
    none = labelled(drawn(regular())).select(np.zeros(0, dtype=np.int64))
    assert aggregates(none).shape == (0, 14)
