"""Two folders in, one page out: what a do-nothing and a noisy release give away, and the gate."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import wfdb

import fedrean
from server.report.findings import Finding, failures, findings, parse_gates

FAST = ["threads=1", "profile.sampling_rate=50", "audit.steps=60", "audit.width=4",
        "audit.attacks=[identification,recording]", "audit.encoders=[classifier]"]


def release(original: Path, target: Path, change) -> Path:
    """The records of a folder, each changed, under the same names and with the same header."""
    for header in original.glob("*.hea"):
        record = wfdb.rdrecord(str(original / header.stem), physical=True)
        target.mkdir(exist_ok=True)
        wfdb.wrsamp(header.stem, record.fs, record.units, record.sig_name,
                    p_signal=change(record.p_signal), fmt=["16"] * record.n_sig,
                    comments=record.comments, write_dir=str(target))
    return target


def noise(signal):
    return np.random.default_rng(0).normal(0, 1, signal.shape)


def call(monkeypatch, capsys, *words) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fedrean", "audit", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    return int(left.value.code or 0), *capsys.readouterr()


@pytest.fixture(scope="module")
def folders(consortium, tmp_path_factory):
    original, target = consortium / "ltdb", tmp_path_factory.mktemp("released")
    return original, release(original, target / "same", lambda x: x), release(
        original, target / "noise", noise)


def audit(monkeypatch, capsys, original, released, folder, *words):
    return call(monkeypatch, capsys, "--original", original, "--released", released, "--run-dir",
                folder, *FAST, *words)


def test_a_copy_is_named_and_the_gate_fails(folders, tmp_path, monkeypatch, capsys):
    original, same, _ = folders
    code, out, err = audit(monkeypatch, capsys, original, same, tmp_path, "--fail-above",
                           "reid=0.5", "--json")
    metrics = json.loads(out)
    row = metrics["anonymizers"]["release"]
    assert row["reid"] == metrics["clean"]["reid"] and row["prd"]["value"] < 0.5
    assert metrics["recording"]["waveform"]["value"] > 0.95
    assert code == 1 and re.search(r"fedrean: reid: .* by .*; allowed is 0\.5", err)
    page = (tmp_path / "audit.html").read_text()
    assert "The strongest attack names" in page and "allowed is 0.5" in page
    assert str(same) in page and "--labels" in page


def test_noise_is_not_found_again_and_an_audit_goes_on(folders, tmp_path, monkeypatch, capsys):
    original, _, noisy = folders
    code, out, _ = audit(monkeypatch, capsys, original, noisy, tmp_path, "--json")
    found = json.loads(out)["recording"]
    assert code == 0 and found["rhythm"]["value"] < 0.3 and found["waveform"]["value"] < 0.3
    kept = next(tmp_path.glob("audit-*/recording.json"))
    tree = json.loads(kept.read_text())
    kept.write_text(json.dumps({**tree, "found": {**found, "windows": 7}}))
    _, out, _ = audit(monkeypatch, capsys, original, noisy, tmp_path, "--json")
    assert json.loads(out)["recording"]["windows"] == 7  # kept, not made again
    _, out, _ = audit(monkeypatch, capsys, original, noisy, tmp_path, "--json", "audit.seeds=2")
    assert json.loads(out)["recording"]["windows"] == found["windows"]  # asked otherwise


@pytest.mark.parametrize(("words", "line"), [
    ([], "original is None, released is None, run is None; allowed is --original and --released"),
    (["--original", "/no", "--released", "/no"], "original is '/no'; allowed is a folder of WFDB"),
    (["--fail-above", "reid=2"], "fail-above is 'reid=2'; allowed is KIND=SHARE"),
    (["--fail-above", "name=.1"], "fail-above is 'name=.1'; allowed is KIND=SHARE"),
])  # fmt: skip
def test_bad_input(tmp_path, monkeypatch, capsys, words, line):
    code, _, err = call(monkeypatch, capsys, *words, "--run-dir", tmp_path)
    assert code == 2 and line in err


def test_folders_without_a_common_record(folders, tmp_path, monkeypatch, capsys):
    original, same, _ = folders
    other = tmp_path / "other"
    release(original, other, lambda x: x)
    for file in other.iterdir():
        text = file.read_bytes().replace(file.stem.encode(), b"x" + file.stem.encode())
        (other / f"x{file.name}").write_bytes(text if file.suffix == ".hea" else file.read_bytes())
        file.unlink()
    code, _, err = audit(monkeypatch, capsys, original, other, tmp_path / "a")
    assert code == 2 and "0 windows in common" in err and "records are paired by name" in err


def test_an_attacker_who_is_always_wrong_on_sex_tells_it():
    def one(kind, value):
        return Finding(kind, "an attack", {"value": value, "chance": 0.5}, None)

    assert one("sex", 0.1).told == pytest.approx(0.9) and one("reid", 0.1).told == 0.1
    gates = parse_gates(["sex=.8", "reid=.2", "age=.5"])
    assert failures([one("sex", 0.1), one("reid", 0.1)], gates) == [
        "sex: 0.900 by an attack; allowed is 0.8",
        "age: nothing was measured, so 0.5 is not shown to hold"]


def test_a_release_that_clips_or_fills_the_range_is_attacked_all_the_same(folders, tmp_path,
                                                                          monkeypatch, capsys):
    original, _, _ = folders
    clipped = release(original, tmp_path / "clipped",
                      lambda x: np.clip(x, *np.nanquantile(x, [0.02, 0.98])))
    _, out, _ = audit(monkeypatch, capsys, original, clipped, tmp_path / "a", "--json",
                      "audit.attacks=[]")
    found = json.loads(out)["release"]
    assert found["released_windows"] == found["windows"]


def test_a_share_of_two_windows_leads_nothing():
    def pair(value, n):
        top1 = {"value": value, "low": None, "high": None, "n": n, "chance": 0.1}
        return {"top1": top1, "sex": {}, "age": {}}

    found = findings({"identification": {
        "over 30 days": {"metric": {"clean": pair(1.0, 2), "released": pair(1.0, 2)}},
        "same day": {"metric": {"clean": pair(0.9, 30), "released": pair(0.2, 30)}}}})
    assert [one.released["n"] for one in found] == [30, 2]
    assert failures(found, {"reid": 0.5}) == []
