"""Bad input through the real command line: one line, exit code 2, or left out and counted."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wfdb

import fedrean
from client.charged_round import digest, train_round
from client.hospital import Hospital
from client.ledger import Ledger
from common.ecg.hospital_file import load_hospital
from common.ecg.windows import WindowSettings, prepare
from common.errors import BudgetError
from common.models.classifier import shared_state
from common.models.files import save_state
from server.overrides import compose_settings


@pytest.fixture
def site(consortium: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the synthetic mitdb that a test may damage; the working directory is beside it."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(consortium / "mitdb", tmp_path / "mitdb"))


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of `fedrean WORDS`."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as left:
        patch.setattr(sys, "argv", ["fedrean", *words])
        fedrean.main()
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that refuses."""
    code, out, err = command(capsys, *words)
    assert code == 2 and out == "" and err.count("\n") == 1 and err.startswith("fedrean: ")
    return err


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("leads: [[MLII, V5]]", "", "key 'leads' is missing; needed are name, path"),
        ("path: .", "path: .\ncolour: red", "key is 'colour'; allowed is one of name, path"),
        ("path: .", "path: nowhere", "path is 'nowhere'; allowed is a readable folder (No such"),
        ("path: .", 'path: "a\\0"', "allowed is a readable folder (embedded null byte)"),
        ("path: .", "path: ~nobody-of-that-name", "allowed is a readable folder (Could not"),
        ("path: .", "path: 100.hea", "allowed is a readable folder (Not a directory)"),
        ("[[MLII, V5]]", "MLII", "leads is 'MLII'; allowed is a list of lists"),
        ("labels: beats+rhythm", "labels: [beats]", "labels is ['beats']; allowed is one of"),
        ("subjects: record", "subjects: who.csv", "table is 'who.csv'; allowed is a file in"),
        ("path: .", "path: {[", "is not YAML"),
        ("[[MLII, V5]]", "[[aVR]]", "mitdb has 0 patients with usable windows; at least 2 are "
         "needed; 4 records left out: record 100: leads are MLII, V5; wanted is aVR"),
    ],
)  # fmt: skip
def test_hospital_file(
    site: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, line: str
) -> None:
    file = site / "hospital.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    assert line in refused(capsys, "data", "describe", "mitdb")


def rewrite(folder: Path, volts: np.ndarray) -> None:
    """Record 100 anew, from mV, without annotations."""
    (folder / "100.atr").unlink()
    wfdb.wrsamp("100", 250, ["mV"], ["MLII"], p_signal=volts[:, None], fmt=["16"],
                adc_gain=[1000.0], baseline=[0], write_dir=str(folder))  # fmt: skip


def damage(folder: Path, how: str) -> None:
    dat, hea = folder / "100.dat", folder / "100.hea"
    sine = np.sin(np.arange(250 * 24) / 30)
    if how == "no dat":
        dat.unlink()
    elif how == "dangling dat":
        dat.unlink()
        dat.symlink_to("gone.dat")
    elif how == "truncated":
        dat.write_bytes(dat.read_bytes()[:-9])
    elif how == "no signals":
        hea.write_text("100 0 360 64800\n")
    elif how == "rate 0":
        hea.write_text(hea.read_text().replace("100 2 360", "100 2 0"))
    elif how == "other leads":
        hea.write_text(hea.read_text().replace("MLII", "X").replace("V5", "Y"))
    elif how == "annotations":
        (folder / "100.atr").write_bytes(bytes(range(1, 256)) * 9)
    elif how == "short":
        rewrite(folder, sine[: 250 * 7])
    else:
        sine[: len(sine) // (1 if "all" in how else 4)] = np.nan if "missing" in how else -1.0
        rewrite(folder, sine)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("no dat", "file '100.dat' is missing"),
        ("dangling dat", "file '100.dat' is missing"),
        ("truncated", "its header promises 194400"),
        ("no signals", "signals is 0; allowed is 1 or more"),
        ("rate 0", "sampling rate is 0; allowed is 1 to 20000 Hz"),
        ("other leads", "leads are X, Y; wanted is MLII or V5"),
        ("annotations", ".atr"),
        ("short", "length is 7 s; allowed is 8 s (a window) or more"),
        ("all flat", "none of 3 windows is usable: {'flat': 3}"),
        ("all missing", "none of 3 windows is usable: {'missing': 3}"),
    ],
)
def test_a_damaged_record_is_left_out_and_named(
    site: Path, capsys: pytest.CaptureFixture[str], how: str, words: str
) -> None:
    damage(site, how)
    code, out, err = command(capsys, "data", "describe", "mitdb", "--json")
    facts = json.loads(out)["hospitals"]["mitdb"]
    assert code == 0 and err == "" and facts["records"] == 3
    assert list(facts["records_left_out"]) == ["100"]
    assert words in facts["records_left_out"]["100"]


@pytest.mark.parametrize(("how", "reason"), [("flat", "flat"), ("missing", "missing")])
def test_a_bad_stretch_is_counted(
    site: Path, capsys: pytest.CaptureFixture[str], how: str, reason: str
) -> None:
    def facts() -> dict[str, Any]:
        out = command(capsys, "data", "describe", "mitdb", "--json")[1]
        found: dict[str, Any] = json.loads(out)["hospitals"]["mitdb"]
        return found

    whole = facts()
    assert whole["windows_skipped"] == {}
    damage(site, how)
    found = facts()
    assert found["windows_skipped"] == {reason: 1} and found["records"] == 4


def test_one_patient(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "RECORDS").write_text("201\n202\n")
    line = refused(capsys, "data", "describe", "mitdb")
    assert "hospital mitdb has 1 patient with usable windows; at least 2 are needed" in line


@pytest.mark.parametrize("where", ["", "below"])
def test_a_folder_without_permission(
    site: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    (site / "below").mkdir()
    scandir = os.scandir

    def guarded(path: str | Path) -> object:
        if Path(path) == (site / where):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    line = refused(capsys, "data", "describe", "mitdb")
    assert "Permission denied" in line and ("below" in line or "path is '.'" in line)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("data describe nowhere", "hospital file is 'nowhere'; allowed is a readable file (No"),
        ("data describe empty", "hospital file is 'empty/hospital.yaml'; allowed is a readable"),
        ("data describe mitdb --data-dir file", "it cannot be written: [Errno 20] Not a dir"),
        ("data describe mitdb mitdb", "hospital names are ['mitdb', 'mitdb']; each must be"),
        ("data prepare mitdb --sampling-rate 5", "sampling_rate is 5; allowed is 50 to 1000 Hz"),
        ("data prepare mitdb --seconds 1", "seconds is 1.0; allowed is 2 to 60 s"),
        ("data prepare mitdb --reserved 0.9", "reserved is 0.9; allowed is 0 to 0.5"),
        ("data prepare mitdb --workers=-1", "workers is -1; allowed is 0 (one a core) or more"),
        ("data synthesize file/x", "it cannot be written"),
        ("simulate colour=red", "Could not override 'colour'"),
        ("simulate privacy.size=1", "settings: hospitals, cohort"),
        ("simulate training=alone", "training is 'alone'; allowed: federated, pooled, local"),
        ("simulate privacy.epsilon=abc", "privacy.epsilon is 'abc'; allowed: a value of type flo"),
        ("simulate seed=1.5", "seed is 1.5; allowed: a value of type int"),
        ("simulate diagnosis=3", "diagnosis is 3; allowed: keys rounds, epochs"),
        ("simulate hospitals=a.yaml", "hospitals is 'a.yaml'; allowed: a value of type list[str]"),
        ("simulate hospitals=[no.yaml]", "hospital file is 'no.yaml'; allowed is a read"),
        ("simulate --run-dir file", "run directory is 'file'; it cannot be written: File exists"),
        ("simulate resume=nowhere", "resume is 'nowhere', which holds no readable config.yaml"),
        ("simulate resume=file", "allowed: the directory of an earlier run"),
        ("simulate resume=wrong", "settings key is 'colour'; allowed: hospitals"),
        ("report empty", "RUN is 'empty', which holds no metrics.json; allowed: a finished run"),
        ("report wrong", "has schema_version 99; allowed: 2"),
    ],
)
def test_commands(site: Path, capsys: pytest.CaptureFixture[str], words: str, line: str) -> None:
    Path("file").touch()
    Path("empty").mkdir()
    Path("wrong").mkdir()
    Path("wrong/config.yaml").write_text("colour: red\n")
    Path("wrong/metrics.json").write_text('{"schema_version": 99}')
    assert line in refused(capsys, *words.split())
    assert not Path("r").exists()  # a refused run leaves no directory in the next one's way


def test_a_kept_reply_must_be_the_one_that_was_paid_for(site: Path, tmp_path: Path) -> None:
    settings = compose_settings([])
    windows = WindowSettings(settings.profile.sampling_rate, settings.profile.seconds, 0.15, 0)
    store = prepare(load_hospital(site / "hospital.yaml"), tmp_path / "stores", windows)
    hospital = Hospital("mitdb", store, tmp_path / "state", Ledger(tmp_path / "ledger"), settings,
                        "run")
    state = shared_state("diagnosis", hospital.network("diagnosis"))
    row = hospital.ledger.charge("run", "diagnosis", 1, "none", None, 1e-5, digest(state), 8.0)
    hospital.ledger.settle(row, digest(state))
    kept = hospital.state / "replies" / "diagnosis-1.safetensors"
    save_state(kept, state, {})
    assert digest(train_round(hospital, "diagnosis", 1, state).state) == digest(state)
    save_state(kept, {name: value + 1 for name, value in state.items()}, {})
    with pytest.raises(BudgetError, match="kept reply .* has hash [0-9a-f]{64}; row 1 of the"):
        train_round(hospital, "diagnosis", 1, state)
    kept.write_bytes(b"half of it")
    with pytest.raises(BudgetError, match="unreadable"):
        train_round(hospital, "diagnosis", 1, state)
    assert hospital.ledger.account(1e-5).releases == 1
