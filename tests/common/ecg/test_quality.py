"""Which samples are found bad, at the stated thresholds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import wfdb

from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.labels import Annotations
from common.ecg.quality import bad_samples, out_of_range
from common.ecg.recording import Recording
from common.ecg.records import read_record
from tests.common.ecg.made import write_hospital

RATE = 200.0


def wave(seconds: float = 10.0) -> np.ndarray:
    t = np.arange(round(RATE * seconds)) / RATE
    return np.sin(2 * np.pi * 1.3 * t) + 0.01 * np.sin(2 * np.pi * 7.7 * t + 1)


def recording(*rows: np.ndarray, marks: Annotations | None = None) -> Recording:
    names = tuple(f"L{i}" for i in range(len(rows)))
    return Recording(names, np.stack(rows), None, RATE, (), annotations=marks)


def spans(mask: np.ndarray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(mask.astype(int), prepend=0, append=0))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def test_a_clean_wave_is_clean() -> None:
    assert bad_samples(recording(wave(), 0.5 * wave())) == {}


@pytest.mark.parametrize(("samples", "found"), [(199, False), (200, True), (450, True)])
def test_flat_from_one_second(samples: int, found: bool) -> None:
    row = wave()
    row[300 : 300 + samples] = 0.123
    bad = bad_samples(recording(wave(), row))
    assert ({name: spans(mask) for name, mask in bad.items()}
            == ({"flat": [(300, 300 + samples)]} if found else {}))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_clipped_from_20_ms_on_at_the_leads_own_extreme(sign: float) -> None:
    row = sign * np.clip(wave(), -2, 0.995)
    bad = bad_samples(recording(row))
    assert list(bad) == ["clipped"]
    assert np.array_equal(bad["clipped"], np.abs(row - sign * 0.995) < 1e-12)
    assert max(b - a for a, b in spans(bad["clipped"])) >= 4
    short = wave()
    short[500:503] = sign * 3.0  # 15 ms at the extreme
    assert bad_samples(recording(short)) == {}
    inside = wave()
    inside[500:600] = 0.2  # half a second at a value that is no extreme
    assert bad_samples(recording(inside)) == {}


def test_an_electrode_that_falls_off_to_the_extreme_clips_nothing_else() -> None:
    row = wave()
    row[300:900] = row.max()
    assert {name: spans(mask) for name, mask in bad_samples(recording(row)).items()} == {
        "flat": [(300, 900)]}


def test_missing_and_unreadable() -> None:
    row = wave()
    row[100:150] = np.nan
    marks = Annotations(np.array([0, 400, 600, 900]), np.array(["~"] * 4), ("",) * 4,
                        np.array([0, -1, 1, -1]))  # fmt: skip
    bad = bad_samples(recording(row, marks=marks))
    assert {name: spans(mask) for name, mask in bad.items()} == {
        "missing": [(100, 150)], "unreadable": [(400, 600), (900, 2000)]}


def test_out_of_range() -> None:
    high = np.array([0.049, 0.05, 20.0, 20.1])
    assert out_of_range(np.zeros(4), high).tolist() == [True, False, False, True]


def write(folder: Path, digital: np.ndarray, resolution: int, zero: int) -> HospitalFile:
    wfdb.wrsamp("a", 200, ["mV"], ["I"], d_signal=digital[:, None], fmt=["212"],
                adc_gain=[200.0], baseline=[zero], write_dir=str(folder))  # fmt: skip
    header = folder / "a.hea"
    lines = header.read_text().splitlines()
    fields = lines[1].split()
    fields[3:5] = [str(resolution), str(zero)]
    header.write_text("\n".join([lines[0], " ".join(fields)]) + "\n")
    return load_hospital(write_hospital(folder))


@pytest.mark.parametrize(("low", "high"), [(0, 2047), (0, 1900), (100, 2047), (100, 1900)])
def test_saturated_at_the_ends_of_the_converter(tmp_path: Path, low: int, high: int) -> None:
    digital = np.clip(np.rint(1024 + 1100 * wave()), low, high).astype(int) - 1024
    read = read_record(write(tmp_path, digital, 11, 0), "a")
    ends = ((digital == -1024) | (digital == 1023))[None]
    assert (read.saturated is None) == (not ends.any())
    if read.saturated is not None:
        assert np.array_equal(read.saturated, ends)


def test_a_resolution_that_the_samples_exceed_says_nothing(tmp_path: Path) -> None:
    digital = np.clip(np.rint(900 * wave()), -512, 900).astype(int)
    assert read_record(write(tmp_path, digital, 10, 0), "a").saturated is None


def test_the_full_range_of_a_format_leaves_its_missing_value_alone(tmp_path: Path) -> None:
    digital = np.clip(np.rint(2300 * wave()), -2047, 2047).astype(int)
    digital[10:20] = -2048
    read = read_record(write(tmp_path, digital, 12, 0), "a")
    assert np.isnan(read.signal[0, 10:20]).all() and not np.isnan(read.signal[0, 20:]).any()
    assert read.saturated is not None
    assert np.array_equal(read.saturated[0], np.abs(digital) == 2047)


def test_what_real_records_have(real_data: Path, tmp_path: Path) -> None:
    """mitdb 116 runs to the converter's end; svdb 859 is cut at 1022, beyond its stated 10 bits."""
    file = write_hospital(tmp_path, path=str(real_data / "mitdb"), leads="[[MLII]]")
    assert "saturated" in bad_samples(read_record(load_hospital(file), "116"))
    assert bad_samples(read_record(load_hospital(file), "100")) == {}
    file = write_hospital(tmp_path, path=str(real_data / "svdb"), leads="[[ECG1]]")
    assert list(bad_samples(read_record(load_hospital(file), "859"))) == ["clipped"]
