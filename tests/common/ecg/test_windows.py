"""Stores: what is kept, what is skipped and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import wfdb

from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.windows import Store, WindowSettings, prepare
from common.errors import InputError

SETTINGS = WindowSettings(sampling_rate=100, seconds=8.0, reserved=0.15, seed=0)


def hospital(folder: Path, leads: str = "[[I]]", subjects: str = "record") -> HospitalFile:
    file = folder / "hospital.yaml"
    file.write_text(f"name: made\npath: .\nleads: {leads}\nsubjects: {subjects}\nlabels: none\n")
    return load_hospital(file)


def write(folder: Path, name: str, volts: np.ndarray) -> None:
    digital = np.where(np.isnan(volts), -32768, np.rint(np.nan_to_num(volts) * 1000)).astype(int)
    wfdb.wrsamp(name, 250, ["mV"], ["I"], d_signal=digital[:, None], fmt=["16"],
                adc_gain=[1000.0], baseline=[0], write_dir=str(folder))  # fmt: skip


def sine(seconds: float) -> np.ndarray:
    return np.sin(2 * np.pi * 1.3 * np.arange(round(250 * seconds)) / 250)


def contents(store: Store) -> tuple[bytes, bytes, object]:
    return store.windows.tobytes(), store.index.tobytes(), store.info


@pytest.mark.parametrize("name", ["mitdb", "ltdb", "incartdb", "shdb-af"])
def test_a_store_of_each_dialect(consortium: Path, tmp_path: Path, name: str) -> None:
    file = load_hospital(consortium / name / "hospital.yaml")
    ticks: list[tuple[int, int]] = []
    one = prepare(file, tmp_path / "one", SETTINGS, progress=lambda *at: ticks.append(at))
    two = prepare(file, tmp_path / "two", SETTINGS, workers=2)
    assert contents(one) == contents(two) and one.path.name == two.path.name
    n = len(one.windows)
    assert one.windows.shape == (n, 1, 800) and one.windows.dtype == np.float32 and n > 50
    assert isinstance(one.windows, np.memmap)
    assert (one.windows.min(axis=2) == 0).all() and (one.windows.max(axis=2) == 1).all()
    assert ticks[-1][0] == ticks[-1][1] and len(one.info["patients"]) == 3
    assert one.info["uncalibrated"] == (3 if name == "ltdb" else 0)
    assert sum(one.info["demographics"]["sex"].values()) == 3
    chosen = [one.select(part) for part in ("train", "validation", "test")]
    assert np.array_equal(np.sort(np.concatenate(chosen)), np.arange(n))
    assert len(set(one.index["patient"][one.select(reserved=True)])) == 1
    assert (one.labels("strict") & one.labels("paper")).any() or name == "shdb-af"
    assert set(one.labels("paper")) <= {1, 2, 4, 8}
    with pytest.raises(InputError, match="trial"):
        one.select("trial")


def test_an_existing_store_is_reused_until_a_file_changes(consortium: Path, tmp_path: Path) -> None:
    shutil.copytree(consortium / "mitdb", tmp_path / "mitdb")
    file = load_hospital(tmp_path / "mitdb" / "hospital.yaml")
    first = prepare(file, tmp_path, SETTINGS)
    assert prepare(file, tmp_path, SETTINGS, progress=lambda *_: pytest.fail("cut")).path == (
        first.path
    )
    (tmp_path / "mitdb" / "100.dat").write_bytes(b"x")
    second = prepare(file, tmp_path, SETTINGS)
    assert second.path != first.path and second.info["patients"] == ["102", "201"]
    assert second.info["left_out"][0][0] == "100" and "100.dat" in second.info["left_out"][0][1]
    assert not list(tmp_path.glob(".*.partial"))


def test_why_windows_are_skipped(tmp_path: Path) -> None:
    bad = sine(80.0)
    bad[250 * 9 : 250 * 9 + 3] = np.nan  # window 1
    bad[250 * 15 + 125 : 250 * 16 + 125] = 0.5  # flat over the border of windows 1 and 2
    bad[8000 - 50 : 10000 + 50] *= 0.01  # window 4: 0.02 mV
    bad[250 * 50 : 250 * 51] = 25.0 + sine(1.0)  # window 6: 26 mV
    bad[250 * 57 : 250 * 57 + 200] = 0.0  # 0.8 s: not flat
    write(tmp_path, "a", bad)
    write(tmp_path, "b", sine(20.0))
    write(tmp_path, "c", sine(7.9))
    store = prepare(hospital(tmp_path), tmp_path / "store", SETTINGS)
    assert store.info["skipped"] == {"missing": 1, "flat": 1, "out of range": 2}
    assert store.info["left_out"] == [
        ["c", "record c: length is 7.9 s; allowed is 8 s (a window) or more"]
    ]
    assert store.index["start"].tolist() == [0, 24, 40, 56, 64, 72, 0, 8]
    assert store.info["records"] == ["a", "b"]
    expected = (np.sin(2 * np.pi * 1.3 * np.arange(800) / 100) + 1) / 2
    assert np.abs(store.windows[6, 0] - expected).max() < 0.01


def test_too_few_patients(tmp_path: Path) -> None:
    write(tmp_path, "a", sine(20.0))
    write(tmp_path, "b", np.zeros(5000))
    with pytest.raises(InputError, match="made has 1 patient with usable windows; at least 2"):
        prepare(hospital(tmp_path), tmp_path / "store", SETTINGS)
    assert not list((tmp_path / "store").glob("*made*"))


def test_a_constant_beginning_of_the_release_is_skipped(real_data: Path, tmp_path: Path) -> None:
    """The release lost 2048 samples of this record, so its own checksum refuses all of it."""
    for person in ("Person_13", "Person_14"):
        shutil.copytree(real_data / "ecgiddb" / person, tmp_path / "db" / person)
    file = hospital(tmp_path / "db", "[[ECG I]]", "folder")
    store = prepare(file, tmp_path / "store", WindowSettings(100, 4.0, 0.0, 0))
    assert [record for record, _ in store.info["left_out"]] == ["Person_13/rec_2"]
    assert "checksum 20129; its header states -11151" in store.info["left_out"][0][1]
    assert store.info["patients"] == ["Person_13", "Person_14"]
