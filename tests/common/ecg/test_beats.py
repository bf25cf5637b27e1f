"""Beats of windows, against a loop over the annotations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.ecg.beats import beats_in, join, no_beats
from common.ecg.hospital_file import load_hospital
from common.ecg.labels import BEAT_CLASSES, Annotations
from common.ecg.pooling import pool
from common.ecg.windows import WindowSettings, prepare

SYMBOLS = ["N", "L", "A", "V", "F", "/", "+", "~", "Q"]


@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from(SYMBOLS)), max_size=30),
       st.lists(st.integers(0, 9), unique=True))
def test_beats_of_windows_are_those_between_their_ends(rows, starts):
    rows, starts = sorted(rows), np.array(sorted(starts), dtype=float) * 10
    marks = Annotations(np.array([s for s, _ in rows], dtype=np.int64),
                        np.array([symbol for _, symbol in rows], dtype=str), ("",) * len(rows),
                        np.zeros(len(rows), dtype=int))
    found = beats_in(marks, 1.0, starts, 10.0)
    names = list(BEAT_CLASSES)
    assert len(found) == len(starts)
    for i, start in enumerate(starts):
        expected = [(s - start, symbol) for s, symbol in rows if start <= s < start + 10
                    and any(symbol in symbols for symbols in BEAT_CLASSES.values())]
        times, kinds = found.of(i)
        assert times.tolist() == [t for t, _ in expected]
        assert all(symbol in BEAT_CLASSES[names[k]]
                   for k, (_, symbol) in zip(kinds, expected, strict=True))
    chosen = np.arange(len(starts))[::2]
    some = found.select(chosen)
    both = join([some, found, no_beats(2)])
    assert len(both) == len(some) + len(found) + 2
    for i, row in enumerate(chosen):
        np.testing.assert_array_equal(some.of(i)[0], found.of(row)[0])
    for i in range(len(found)):
        np.testing.assert_array_equal(both.of(len(some) + i)[1], found.of(i)[1])


def test_stores_keep_beats_through_pooling(consortium: Path, tmp_path: Path) -> None:
    settings = WindowSettings(100, 8.0, 0.15, 0)
    stores = [prepare(load_hospital(consortium / name / "hospital.yaml"), tmp_path, settings)
              for name in ("mitdb", "shdb-af")]
    mitdb, shdb, both = stores[0].beats(), stores[1].beats(), pool(stores, tmp_path).beats()
    assert len(mitdb) == len(stores[0].index) and len(mitdb.time) > 5 * len(mitdb)
    assert len(shdb.time) == 0  # rhythms only
    np.testing.assert_array_equal(both.time, mitdb.time)
    assert len(both) == len(mitdb) + len(shdb)
    # A beat's time is where the window has its steepest slopes.
    row = int(np.flatnonzero(np.diff(mitdb.first) > 4)[0])
    slope = np.abs(np.diff(stores[0].windows[row, 0]))
    near = [slope[max(0, int(100 * t) - 8) : int(100 * t) + 8].max() for t in mitdb.of(row)[0]
            if 0.2 < t < 7.8]
    assert np.median(near) > 4 * np.median(slope)
