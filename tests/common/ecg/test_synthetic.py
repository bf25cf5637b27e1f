"""The synthetic consortium: real WFDB files, four dialects, and a cohort worth learning from."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb
import yaml

from common.ecg import synthetic
from common.ecg.synthetic import HOSPITALS, CohortSettings, write_consortium
from common.errors import InputError

TINY = CohortSettings(patients=2, minutes=1.0, seed=3)
TWELVE = ["I", "II", "III", "AVR", "AVL", "AVF", "V1", "V2", "V3", "V4", "V5", "V6"]
FORMATS: dict[
    str, tuple[list[str], int, str, str]
] = {  # leads, sampling rate, sample format, gain text
    "mitdb": (["MLII", "V5"], 360, "212", "200"),
    "ltdb": (["ECG1", "ECG2"], 128, "212", "0"),
    "incartdb": (TWELVE, 257, "16", "306/mV"),
    "shdb-af": (["CC5", "NASA"], 200, "16", "500(0)/mV"),
}
FIRST_LEAD = {"mitdb": ("MLII", "V5"), "ltdb": ("ECG1",), "incartdb": ("II",), "shdb-af": ("CC5",)}


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default consortium: 8 patients per hospital, 10 min."""
    folder = tmp_path_factory.mktemp("consortium")
    write_consortium(folder, CohortSettings())
    return folder


def records_of(folder: Path) -> list[str]:
    """Record names in the hospital's list."""
    return next(folder.glob("RECORDS*")).read_text().split()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- files ------------------------------------------------------------------------------------


def test_the_same_settings_give_the_same_bytes(tmp_path: Path) -> None:
    """Twice the same seed, once another."""
    for name, chosen in (("a", TINY), ("b", TINY), ("c", CohortSettings(2, 1.0, 4))):
        write_consortium(tmp_path / name, chosen)
    a, b, c = (contents(tmp_path / name) for name in "abc")
    assert a == b
    assert set(a) == set(c)
    assert all(a[name] != c[name] for name in a if name.endswith(".dat"))


def test_more_patients_or_fewer_hospitals_do_not_change_the_first_records(tmp_path: Path) -> None:
    """Seeds belong to (seed, hospital, patient)."""
    write_consortium(tmp_path / "few", TINY)
    write_consortium(tmp_path / "many", CohortSettings(5, 1.0, 3), ["incartdb"])
    few, many = contents(tmp_path / "few" / "incartdb"), contents(tmp_path / "many" / "incartdb")
    records = [name for name in few if re.fullmatch(r"I\d+\.(dat|hea|atr)", name)]
    assert len(records) == 12  # two patients, two records each, three files a record
    assert all(few[name] == many[name] for name in records)


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_wfdb_reads_every_record(cohort: Path, hospital: str) -> None:
    """Leads, rate, format and gain of the original; checksums and initial values hold."""
    leads, rate, sample_format, gain = FORMATS[hospital]
    odd = {"102": ["V5", "V2"], "104": ["V5", "MLII"]} if hospital == "mitdb" else {}
    rails = {"mitdb": (0, 2047), "ltdb": (-2047, 2047)}.get(hospital, (-32767, 32767))
    names = records_of(cohort / hospital)
    assert {p.stem for p in (cohort / hospital).glob("*.hea")} == set(names)
    for name in names:
        record = wfdb.rdrecord(str(cohort / hospital / name), physical=False)
        values = record.d_signal
        assert record.sig_name == odd.get(name, leads)
        assert (record.fs, set(record.fmt)) == (rate, {sample_format})
        assert record.calc_checksum() == [c % 65536 for c in record.checksum]
        assert record.init_value == values[0].tolist()
        assert (values.std(axis=0) > 20).all()  # ADC units: no lead is flat
        at_rails = (values <= rails[0]) | (values >= rails[1])
        assert at_rails.mean() < 0.002  # nor saturated
        lines = (cohort / hospital / f"{name}.hea").read_text().splitlines()
        assert [line.split()[2] for line in lines[1 : 1 + len(leads)]] == [gain] * len(leads)
    newline = b"\r\n" in (cohort / hospital / f"{names[0]}.hea").read_bytes()
    assert newline == (hospital in ("mitdb", "ltdb"))


@pytest.mark.parametrize("hospital", HOSPITALS)
def test_hospital_file(cohort: Path, hospital: str) -> None:
    """At most ten lines, the agreed keys, and what they name exists."""
    text = (cohort / hospital / "hospital.yaml").read_text()
    keys = yaml.safe_load(text)
    assert len(text.splitlines()) <= 10
    assert (keys["name"], keys["path"]) == (hospital, ".")
    assert keys["leads"] == [list(FIRST_LEAD[hospital])]
    assert set(keys) - {"same_patient"} == {
        "name", "path", "leads", "subjects", "demographics", "labels"
    }  # fmt: skip
    assert keys.get("same_patient") == ([[201, 202]] if hospital == "mitdb" else None)
    tables = sorted({v for v in (keys["subjects"], keys["demographics"]) if v.endswith(".csv")})
    for table in tables:
        with open(cohort / hospital / table, encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert [row[0] for row in rows[1:]] == records_of(cohort / hospital)
    assert tables == {"incartdb": ["subjects.csv"], "shdb-af": ["AdditionalData.csv"]}.get(
        hospital, []
    )


def test_comments_name_age_and_sex_in_each_dialect(cohort: Path) -> None:
    """The spellings of the originals, with an unknown age in mitdb."""
    patterns = {
        "mitdb": r"(-1|\d\d) [MF] \d+ 1629 x1",
        "ltdb": r"Age: \d\d  Sex: [MF]",
        "incartdb": r"<age>: \d\d <sex>: [MF] <diagnoses> \w.+",
    }
    for hospital, pattern in patterns.items():
        for name in records_of(cohort / hospital):
            comments = wfdb.rdheader(str(cohort / hospital / name)).comments
            assert re.fullmatch(pattern, comments[0]), comments
    assert wfdb.rdheader(str(cohort / "mitdb" / "103")).comments[0].startswith("-1 ")
    assert wfdb.rdheader(str(cohort / "shdb-af" / "001")).comments == []
    rows = (cohort / "shdb-af" / "AdditionalData.csv").read_text().split()
    assert rows[0] == "Data_ID,Subject_ID,Age,Gender,AF_Type"
    assert {row.split(",")[3] for row in rows[1:]} == {"M", "F"}


def test_annotation_dialects(cohort: Path) -> None:
    """Which symbols and rhythm marks each database uses."""
    symbols: dict[str, set[str]] = {}
    notes: dict[str, set[str]] = {}
    for hospital in HOSPITALS:
        symbols[hospital], notes[hospital] = set(), set()
        for name in records_of(cohort / hospital):
            marks = wfdb.rdann(str(cohort / hospital / name), "atr")
            rhythm = [a for a in marks.aux_note if a]
            assert (np.diff(marks.sample) > 0).all()
            assert {s for s, a in zip(marks.symbol, marks.aux_note, strict=True) if a} <= {"+", '"'}
            assert all(a != b for a, b in zip(rhythm, rhythm[1:], strict=False))
            assert hospital != "incartdb" or not rhythm or rhythm[0] == "(AFIB"
            symbols[hospital] |= set(marks.symbol)
            notes[hospital] |= set(rhythm)
    assert symbols["mitdb"] == {"N", "L", "R", "V", "A", "+"}
    assert symbols["ltdb"] == {"N", "V", "S", "+"}
    assert symbols["incartdb"] == {"N", "V", "A", "+"}
    assert symbols["shdb-af"] == {'"'}
    assert notes["mitdb"] == {"(N", "(AFIB", "(N\0", "(AFIB\0"}
    assert notes["ltdb"] == notes["incartdb"] == {"(N", "(AFIB"}
    assert notes["shdb-af"] == {"(N", "(AFIB", "(NOD"}
    marked = [
        "+" in wfdb.rdann(str(cohort / "incartdb" / name), "atr").symbol
        for name in records_of(cohort / "incartdb")
    ]
    assert any(marked) and not all(marked)


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"patients": 1}, "patients is 1"),
        ({"patients": 9001}, "patients is 9001"),
        ({"patients": True}, "patients is True"),
        ({"patients": 2.0}, "patients is 2.0"),
        ({"minutes": 0.5}, "minutes is 0.5"),
        ({"minutes": math.nan}, "minutes is nan"),
        ({"minutes": math.inf}, "minutes is inf"),
        ({"minutes": "10"}, "minutes is '10'"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
    ],
)
def test_settings_are_checked(wrong: dict[str, Any], words: str) -> None:
    """The message states name, value and bound."""
    with pytest.raises(InputError, match=re.escape(words) + ".*allowed is"):
        CohortSettings(**wrong)


@pytest.mark.parametrize("hospitals", [[], ["mitdb", "mitdb"], ["svdb"]])
def test_hospitals_are_checked(tmp_path: Path, hospitals: list[str]) -> None:
    """None, twice, unknown: refused before anything is written."""
    with pytest.raises(InputError, match="allowed is one"):
        write_consortium(tmp_path / "new", TINY, hospitals)
    assert not (tmp_path / "new").exists()


def test_only_own_untouched_folders_are_replaced(tmp_path: Path) -> None:
    """A ledger or an original database in the way survives."""
    write_consortium(tmp_path, TINY, ["ltdb"])
    first = contents(tmp_path)
    write_consortium(tmp_path, CohortSettings(2, 1.0, 9), ["ltdb"])
    assert contents(tmp_path) != first
    (tmp_path / "ltdb" / "ledger.sqlite").write_text("precious")
    (tmp_path / "mitdb").mkdir()
    (tmp_path / "mitdb" / "100.dat").write_text("original")
    (tmp_path / "shdb-af").write_text("a file")
    before = contents(tmp_path)
    for hospital, words in (("ltdb", "ledger"), ("mitdb", "mitdb"), ("shdb-af", "shdb-af")):
        with pytest.raises(InputError, match=words):
            write_consortium(tmp_path, TINY, ["incartdb", hospital])
    with pytest.raises(InputError, match="not a file"):
        write_consortium(tmp_path / "shdb-af", TINY)
    assert contents(tmp_path) == before


def test_a_failure_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders appear whole or not at all."""
    write_consortium(tmp_path, TINY, ["ltdb"])
    before = contents(tmp_path)

    def fail(*_: object) -> dict[str, str]:
        raise OSError("disk full")

    monkeypatch.setattr(synthetic, "tables", fail)
    with pytest.raises(InputError, match="disk full"):
        write_consortium(tmp_path, CohortSettings(2, 1.0, 9), ["ltdb"])
    assert contents(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["ltdb"]
