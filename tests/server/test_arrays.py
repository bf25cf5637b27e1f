"""Arrays and embeddings that a user gives."""

import json
import sys

import numpy as np
import pytest

import fedrean
from common.config import Settings
from server.arrays import Arrays, load_arrays
from server.overrides import compose_settings


def written(folder, original, released, subjects: str) -> Arrays:
    np.save(folder / "original.npy", original)
    np.save(folder / "released.npy", released)
    (folder / "rows.csv").write_text(subjects)
    return Arrays(folder / "original.npy", folder / "released.npy", folder / "rows.csv")


def people(n: int, each: int) -> str:
    return "patient,sex,age\n" + "".join(f"p{i // each},{'MF'[i // each % 2]},{40 + i // each}\n"
                                         for i in range(n * each))


def call(monkeypatch, capsys, *words) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fedrean", "audit", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    return int(left.value.code or 0), *capsys.readouterr()


def test_embeddings_are_compared_as_they_are(tmp_path, monkeypatch, capsys):
    generator = np.random.default_rng(0)
    clean = np.repeat(generator.normal(size=(8, 16)), 6, axis=0)
    clean += 0.1 * generator.normal(size=clean.shape)
    hidden = generator.normal(size=clean.shape)
    arrays = written(tmp_path, clean, hidden, people(8, 6))
    words = ["--original", arrays.original, "--released", arrays.released, "--subjects",
             arrays.subjects, "--run-dir", tmp_path / "audit", "--fail-above", "reid=0.5"]
    code, out, _ = call(monkeypatch, capsys, *words, "--json")
    pairs = json.loads(out)["identification"]["different records"]["raw"]
    assert code == 0 and pairs["clean"]["top1"]["value"] == 1 and pairs["clean"]["top1"]["n"] == 24
    assert pairs["released"]["top1"]["value"] < 0.5
    assert pairs["clean"]["sex"]["enrolled"]["value"] == 1
    page = (tmp_path / "audit" / "audit.html").read_text()
    assert "linear probe" in page and "What is left of the signal" not in page
    written(tmp_path, clean, clean, people(8, 6))
    code, _, err = call(monkeypatch, capsys, *words)
    assert code == 1 and "reid: 1.000 by nearest window" in err


def test_windows_are_scaled_and_what_is_missing_is_not_released(tmp_path):
    settings: Settings = compose_settings(["audit=folders"])
    length = round(settings.profile.sampling_rate * settings.profile.seconds)
    windows = np.random.default_rng(0).normal(size=(12, 1, length))
    released = windows.copy()
    windows[0], released[1, 0, 3], released[2] = np.nan, np.nan, 1.0
    bundles = load_arrays(written(tmp_path, windows, released, people(3, 4)), settings)
    assert bundles.part[0] == -1 and np.isnan(bundles.released[1:3]).all()
    assert bundles.clean[3].min() == 0 and bundles.clean[3].max() == 1
    assert bundles.sex.tolist() == [0] * 4 + [1] * 4 + [0] * 4
    assert set(np.concatenate([bundles.rows("train"), bundles.rows("test")])) == set(range(1, 12))


def test_bad_input(tmp_path, monkeypatch, capsys):
    rows = np.zeros((4, 3))
    for original, released, table, line in [
        (rows, rows[:3], people(1, 4), "released is (3, 3), original (4, 3)"),
        (rows, rows, people(1, 3), "has 3 rows, 3 with a patient"),
        (rows, rows, "who\na\nb\nc\nd\n", "has 4 rows, 0 with a patient"),
        (rows, rows, people(4, 1), "0 patients with two recordings"),
        (rows[:, None], rows[:, None], people(1, 4), "windows have 3 samples; allowed is"),
        (np.array(["a"] * 4), rows, people(1, 4), "original is of <U1; allowed are numbers"),
    ]:
        arrays = written(tmp_path, original, released, table)
        code, _, err = call(monkeypatch, capsys, "--original", arrays.original, "--released",
                            arrays.released, "--subjects", arrays.subjects, "--run-dir",
                            tmp_path / "audit")
        assert code == 2 and line in err, err
    assert not (tmp_path / "audit").exists()
