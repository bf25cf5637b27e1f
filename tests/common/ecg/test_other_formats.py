"""EDF, CSV and Parquet recordings: the same windows as WFDB from the same samples."""

from __future__ import annotations

import datetime
from pathlib import Path

import edfio
import numpy as np
import pandas as pd
import pytest
import wfdb

from common.ecg.demographics import demographics_of
from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.records import read_record
from common.ecg.subjects import list_records
from common.ecg.windows import WindowSettings, prepare
from common.errors import RecordError
from tests.common.ecg.made import write_hospital

RATE = 250
SETTINGS = WindowSettings(100, 8.0, 0.0, 0)


def volts(seed: int, seconds: int = 32) -> np.ndarray:
    """[samples, 2] whole microvolts, in mV."""
    rng = np.random.default_rng(seed)
    smooth = np.cumsum(rng.standard_normal((RATE * seconds, 2)), axis=0)
    return np.round(smooth / np.abs(smooth).max(axis=0), 3)


def write(folder: Path, kind: str, name: str, mv: np.ndarray) -> None:
    folder.mkdir(exist_ok=True)
    if kind == "wfdb":
        wfdb.wrsamp(name, RATE, ["mV"] * 2, ["II", "V1"], d_signal=np.rint(mv * 1000).astype(int),
                    fmt=["16"] * 2, adc_gain=[1000.0] * 2, baseline=[0] * 2,
                    write_dir=str(folder))  # fmt: skip
    elif kind == "edf":
        signals = [edfio.EdfSignal(column * 1000, RATE, label=label, physical_dimension="uV",
                                   physical_range=(-3000, 3000), digital_range=(-3000, 3000))
                   for label, column in zip(("II", "V1"), mv.T, strict=True)]
        patient = edfio.Patient(sex="F", birthdate=datetime.date(1960, 6, 2))
        start = edfio.Recording(startdate=datetime.date(2020, 6, 1))
        edfio.Edf(signals, patient=patient, recording=start).write(folder / f"{name}.edf")
    else:
        table = pd.DataFrame({"time": np.arange(len(mv)) / RATE, "II": mv[:, 0], "V1": mv[:, 1]})
        if kind == "csv":
            table.to_csv(folder / f"{name}.csv", index=False)
        else:
            table.to_parquet(folder / f"{name}.parquet")


def hospital(folder: Path, kind: str, leads: str = "[II, V1]", **more: str) -> HospitalFile:
    rate = {"sampling_rate": str(RATE)} if kind in ("csv", "parquet") else {}
    return load_hospital(write_hospital(folder, leads=leads, **rate, **more))


@pytest.mark.parametrize("kind", ["edf", "csv", "parquet"])
def test_every_format_gives_the_windows_of_wfdb(tmp_path: Path, kind: str) -> None:
    made = {}
    for which in ("wfdb", kind):
        for number in (1, 2):
            write(tmp_path / which, which, f"p{number}", volts(number))
        found = hospital(tmp_path / which, which)
        assert list_records(found) == ["p1", "p2"]
        made[which] = prepare(found, tmp_path / "stores" / which, SETTINGS)
    assert made[kind].info["records_by_leads"] == {"II + V1": 2}
    assert made[kind].windows.shape == (8, 2, 800)
    np.testing.assert_allclose(made[kind].windows, made["wfdb"].windows, atol=1e-5)


def test_annotations_lie_beside_any_of_them(tmp_path: Path) -> None:
    write(tmp_path, "csv", "p1", volts(1))
    wfdb.wrann("p1", "atr", np.array([10, 500]), ["N", "V"], write_dir=str(tmp_path))
    read = read_record(hospital(tmp_path, "csv", labels="beats"), "p1")
    assert read.annotations is not None and read.annotations.symbol.tolist() == ["N", "V"]


def test_edf_states_sex_and_the_age_at_the_recording(tmp_path: Path) -> None:
    write(tmp_path, "edf", "p1", volts(1))
    found = hospital(tmp_path, "edf")
    comments = read_record(found, "p1").comments
    assert demographics_of(found, "p1", comments) == (1, 59)  # a day before her birthday


def test_edf_counts_the_ends_of_its_range_as_saturated(tmp_path: Path) -> None:
    mv = volts(1)
    mv[100:110, 1] = 3.0
    write(tmp_path, "edf", "p1", mv)
    read = read_record(hospital(tmp_path, "edf"), "p1")
    assert read.saturated is not None
    assert np.flatnonzero(read.saturated[1]).tolist() == list(range(100, 110))
    assert not read.saturated[0].any()


def test_empty_cells_are_missing_and_units_count(tmp_path: Path) -> None:
    (tmp_path / "p1.csv").write_text("II, V1\n1000, 5\n, 6\n3000, inf\n")
    read = read_record(hospital(tmp_path, "csv", unit="uV"), "p1")
    np.testing.assert_allclose(read.signal, [[1.0, np.nan, 3.0], [0.005, 0.006, np.nan]])
    assert read.sampling_rate == RATE and read.leads == ("II", "V1")


@pytest.mark.parametrize(("text", "words"), [
    ("II,V2\n1,2\n", "leads are II, V2; wanted is V1"),
    ("II,V1\n1,many\n", "cells that are no numbers"),
    ("II,V1\n", "samples is 0"),
    ("", "p1"),
    ("\0\xff", "p1"),
])  # fmt: skip
def test_a_bad_table_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "p1.csv").write_text(text, encoding="latin-1")
    with pytest.raises(RecordError) as caught:
        read_record(hospital(tmp_path, "csv"), "p1")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_table_needs_a_rate_and_tables_of_people_are_no_records(tmp_path: Path) -> None:
    write(tmp_path, "csv", "p1", volts(1))
    with pytest.raises(RecordError, match=r"hospital\.yaml has no sampling_rate"):
        read_record(load_hospital(write_hospital(tmp_path, leads="[II]")), "p1")
    (tmp_path / "people.csv").write_text("record,patient\np1,7\n")
    found = hospital(tmp_path, "csv", subjects="people.csv")
    assert list_records(found) == ["p1"]


def test_damaged_files_are_one_line(tmp_path: Path) -> None:
    for kind in ("edf", "parquet"):
        write(tmp_path, kind, kind, volts(1))
        file = tmp_path / f"{kind}.{kind}"
        file.write_bytes(file.read_bytes()[:200])
        with pytest.raises(RecordError, match=f"record {kind}: it cannot be read"):
            read_record(hospital(tmp_path, "csv"), kind)
