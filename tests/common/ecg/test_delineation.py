import neurokit2
import numpy as np
import pytest

from common.ecg import delineation
from common.ecg.delineation import delineate
from tests.common.ecg.drawn import RATE, drawn, regular


def test_beats_and_waves_are_where_they_were_drawn():
    times = regular()
    window = drawn(times)
    found, base = delineate(window, RATE), window[0, 0]
    assert not found.failed and found.time == pytest.approx(times, abs=0.012)
    qrs, pr, qt = np.nanmedian(found.intervals, axis=0)
    assert 70 <= qrs <= 120 and 130 <= pr <= 220 and 320 <= qt <= 440
    known = [0.15 * (1 - base), 1 - base, -base, 0.3 * (1 - base)]  # the swing ends at R and S
    assert np.nanmedian(found.amplitudes, axis=0).tolist() == pytest.approx(known, abs=0.03)


@pytest.mark.parametrize("rate", [100.0, 125.0, 250.0])
def test_time_is_in_seconds_at_every_rate(rate):
    length = round(8 * rate)
    window = np.interp(np.arange(length) / rate, np.arange(1000) / RATE, drawn(regular())[0])
    assert delineate(window[None], rate).time == pytest.approx(regular(), abs=0.015)


def test_a_wider_qrs_is_longer():
    widths = [np.nanmedian(delineate(drawn(regular(), qrs), RATE).intervals[:, 0])
              for qrs in (1.0, 1.4, 1.8)]
    assert widths[1] > 1.15 * widths[0] and widths[2] > 1.15 * widths[1]


def test_what_touches_the_mirror_is_no_measure():
    found = delineate(drawn(np.array([0.01, *regular(first=0.8)])), RATE)
    assert np.isnan(found.intervals[0]).all() and np.isfinite(found.intervals[2]).all()


@pytest.mark.parametrize("window", [np.zeros((1, 1000)), np.full((1, 1000), np.nan)])
def test_nothing_in_a_window_without_a_signal(window):
    found = delineate(window.astype(np.float32), RATE)
    assert len(found) == 0 and found.intervals.shape == (0, 3) and not found.failed


def test_a_delineator_that_raises_is_told(monkeypatch):
    def broken(*_, **__):
        raise IndexError("no wave")

    monkeypatch.setattr(neurokit2, "ecg_delineate", broken)
    assert delineate(drawn(regular()), RATE).failed
    monkeypatch.setattr(neurokit2, "ecg_delineate", lambda *_, **__: (
        None, {f"ECG_{name}": [1.0] for name in delineation._WAVES.values()}))
    assert delineate(drawn(regular()), RATE).failed  # waves of another number of beats
