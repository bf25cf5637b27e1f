"""Reading records, whole and damaged."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import wfdb

from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.labels import label_windows
from common.ecg.records import read_record
from common.errors import RecordError


@pytest.fixture
def mitdb(consortium: Path, tmp_path: Path) -> HospitalFile:
    """A copy of the synthetic mitdb that a test may damage."""
    shutil.copytree(consortium / "mitdb", tmp_path / "mitdb")
    return load_hospital(tmp_path / "mitdb" / "hospital.yaml")


def real(folder: Path, tmp_path: Path, leads: str, labels: str) -> HospitalFile:
    """A hospital file outside the real folder."""
    file = tmp_path / "real.yaml"
    file.write_text(
        f"name: real\npath: {folder}\nleads: {leads}\nsubjects: record\n"
        f"demographics: header\nlabels: {labels}\n"
    )
    return load_hospital(file)


def test_a_record_in_millivolts(mitdb: HospitalFile) -> None:
    read = read_record(mitdb, "102")  # has no MLII
    expected = wfdb.rdrecord(str(mitdb.path / "102"), channel_names=["V5"]).p_signal.T
    np.testing.assert_allclose(read.signal, expected)
    assert read.signal.shape == (1, 64800) and read.sampling_rate == 360
    assert not read.uncalibrated and read.annotations is not None


def test_missing_samples_are_nan_and_order_follows_the_file(mitdb: HospitalFile) -> None:
    both = dataclasses.replace(mitdb, leads=(("V5",), ("MLII",)))
    read = read_record(both, "100")
    swapped = read_record(dataclasses.replace(mitdb, leads=(("MLII",), ("V5",))), "100")
    np.testing.assert_array_equal(read.signal[::-1], swapped.signal)
    raw = np.full((1000, 1), -32768)
    raw[500:] = 7
    wfdb.wrsamp("gap", 250, ["mV"], ["MLII"], d_signal=raw, fmt=["16"], adc_gain=[100.0],
                baseline=[0], write_dir=str(mitdb.path))  # fmt: skip
    gap = read_record(mitdb, "gap").signal[0]
    assert np.isnan(gap[:500]).all() and gap[500:] == pytest.approx(0.07)


def damage(folder: Path, how: str) -> None:
    dat, hea = folder / "100.dat", folder / "100.hea"
    data, text = bytearray(dat.read_bytes()), hea.read_text()
    if how == "no dat":
        dat.unlink()
    elif how == "no header":
        hea.unlink()
    elif how == "truncated":
        dat.write_bytes(data[:-1000])
    elif how == "flipped":
        data[3000:3300:3] = bytes(b ^ 0x55 for b in data[3000:3300:3])
        dat.write_bytes(data)
    elif how == "no signals":
        hea.write_text("100 0 360 64800\n")
    elif how == "garbage":
        hea.write_bytes(bytes(range(256)))
    elif how == "empty":
        hea.write_text("")
    elif how == "absurd":
        hea.write_text(text.replace(" 64800", " 99999999999"))
    elif how == "rate":
        hea.write_text(text.replace("100 2 360", "100 2 0"))
    elif how == "no lead":
        hea.write_text(text.replace("MLII", "X").replace("V5", "Y"))
    elif how == "unit":
        hea.write_text(text.replace(" 200 11", " 200/mmHg 11"))
    elif how == "elsewhere":
        hea.write_text(text.replace("100.dat", "../102.dat"))
    elif how == "segments":
        hea.write_text("100/2 2 360 64800\n102 32400\n201 32400\n")
    elif how == "atr":
        (folder / "100.atr").write_bytes(bytes(range(1, 256)) * 9)


DAMAGES = {
    "no dat": "100.dat", "no header": "100.hea", "truncated": "194400", "flipped": "checksum",
    "no signals": "signals is 0", "garbage": "", "empty": "", "absurd": "promises",
    "rate": "sampling rate", "no lead": "MLII or V5", "unit": "mmHg", "elsewhere": "signal line",
    "segments": "segments", "atr": ".atr",
}  # fmt: skip


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_is_one_line(mitdb: HospitalFile, how: str) -> None:
    damage(mitdb.path, how)
    with pytest.raises(RecordError) as caught:
        read_record(mitdb, "100")
    message = str(caught.value)
    assert "100" in message and DAMAGES[how] in message and "\n" not in message


def test_flipped_bits_of_another_lead_do_not_matter(mitdb: HospitalFile) -> None:
    hea = mitdb.path / "100.hea"
    lines = hea.read_text().splitlines()
    fields = lines[2].split()
    fields[6] = "1"
    hea.write_text("\n".join([*lines[:2], " ".join(fields), *lines[3:]]))
    read_record(mitdb, "100")
    with pytest.raises(RecordError, match="lead V5"):
        read_record(dataclasses.replace(mitdb, leads=(("V5",),)), "100")


def test_real_records(real_data: Path, tmp_path: Path) -> None:
    mit = real(real_data / "mitdb", tmp_path, "[[MLII, V5]]", "beats+rhythm")
    starts = np.arange(225) * 8.0
    counts = {}
    for record in ("100", "102", "114", "201"):
        read = read_record(mit, record)
        expected = wfdb.rdrecord(str(real_data / "mitdb" / record))
        lead = "V5" if record == "102" else "MLII"
        column = expected.sig_name.index(lead)
        np.testing.assert_allclose(read.signal[0], expected.p_signal[:, column])
        _, paper = label_windows(read.annotations, 360.0, starts, 8.0, "beats+rhythm")
        counts[record] = np.bincount(paper, minlength=9)[[1, 2, 4, 8]].tolist()
    assert counts["100"][1] == 0 and counts["100"][2] == 1  # its only PVC
    assert counts["201"][1] > 50  # fibrillation
    svdb = real(real_data / "svdb", tmp_path, "[[ECG1]]", "beats")
    read = read_record(svdb, "801")
    strict, _ = label_windows(read.annotations, 128.0, starts, 8.0, "beats")
    assert not read.uncalibrated and (strict & 2).all()
