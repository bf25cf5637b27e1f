"""The study of anonymizers, as small as it can be: the parts fit, and it goes on where it was."""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import fedrean
from common.protocol import STAGES
from server.overrides import compose_settings
from simulations.studies import anonymizers, releases
from simulations.studies.page import look
from simulations.studies.releases import METHODS
from simulations.studies.tables import HEADER
from tests.small import STUDY


def run(folder: Path, data: Path, monkeypatch: pytest.MonkeyPatch, methods: str) -> None:
    words = ["study", "anonymizers", *STUDY, "--methods", methods, "--trials", "2", "--steps", "5",
             "--fit-steps", "6", "--run-dir", str(folder), "--data-dir", str(data)]
    monkeypatch.setattr(sys, "argv", ["fedrean", *words])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    assert left.value.code == 0


def test_a_study_and_its_page(pooled: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch,
                              capsys: pytest.CaptureFixture[str]) -> None:
    folder, data = pooled
    run(folder, data, monkeypatch, "gaussian,rean,surrogate,rean_pooled")
    results = json.loads((folder / "results.json").read_text())
    assert set(results["sets"]) == {"shared 500", "20,000", "SVE-enriched"}
    for name, row in results["methods"].items():
        on = row["20,000"]
        for leaf in (on["reid"], row["retrained"]["20,000"]["reid"], on["frozen"]["macro_auroc"]):
            assert set(leaf) == {"value", "low", "high", "n", "chance"} and leaf["n"] > 0
        assert on["prd"]["value"] > 0 and on["d_sym"] > 0
        assert row["search"]["trials"] == (2 if name in ("gaussian", "rean") else 0)
        assert set(on["auroc_minus_clean"]) == {"frozen", "inception_time", "resnet1d"}
    assert set(results["methods"]["rean"]["settings"]) == {"utility", "privacy", "prd", "l1"}
    page = (folder / "study.html").read_text()
    assert all(title in page for title in HEADER) and page.count("<svg") == 2
    assert "page: " in capsys.readouterr().out
    assert len(results["warnings"]) > 3 and all(line in html.unescape(page)
                                                for line in results["warnings"])
    bundle = folder / "bundles" / "pooled" / "released.npy"
    np.testing.assert_array_equal(np.load(bundle), np.load(
        folder / "methods" / "rean_pooled" / "released.npy"))
    monkeypatch.setattr(sys, "argv", ["fedrean", "study", "anonymizers", "seed=5", "--run-dir",
                                      str(folder), "--data-dir", str(data)])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    assert left.value.code == 2
    assert "holds a study of other settings" in capsys.readouterr().err
    # What is done is not done again; a method that is added finds the same bench.
    monkeypatch.setattr(anonymizers, "_method", lambda *_: pytest.fail("done again"))
    run(folder, data, monkeypatch, "surrogate,gaussian")
    again = json.loads((folder / "results.json").read_text())
    assert again["clean"] == results["clean"]
    assert again["methods"]["gaussian"] == results["methods"]["gaussian"]


def test_rean_of_other_runs(pooled: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, data = pooled
    monkeypatch.setattr(releases, "as_long", lambda settings, hospitals: settings)  # time
    run(folder, data, monkeypatch, "rean_federated,rean_local,rean_window_dp")
    methods = json.loads((folder / "results.json").read_text())["methods"]
    clean = np.load(folder / "bundles" / "pooled" / "clean.npy")
    for name, method in methods.items():
        released = np.load(folder / "methods" / name / "released.npy")
        # Row by row the windows of the bench: no change is larger than the bound.
        assert 0 < np.abs(released - clean).max() <= 0.08 + 1e-6
        assert len(method["privacy"]) == 4
        for account in method["privacy"].values():
            private = name == "rean_window_dp"
            assert account["unit"] == ("window" if private else "none")
            assert (account["epsilon"] is not None and account["epsilon"] <= 8) == private
    page = (folder / "study.html").read_text()
    assert "rean_window_dp: mitdb: per patient not bounded, per window epsilon" in page


@pytest.mark.parametrize(("words", "line"), [
    (["--methods", "magic"], "method is 'magic'; allowed is one of gaussian, laplacian"),
    (["--trials", "0"], "trials is 0; allowed is 1 or more"),
    (["--minutes=-1"], "minutes is -1.0; allowed is 0 (no limit, or the default) or more"),
    (["training=federated"], "training is 'federated', privacy.unit 'none'; allowed here: pooled"),
])  # fmt: skip
def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                   capsys: pytest.CaptureFixture[str], words: list[str], line: str) -> None:
    monkeypatch.setattr(sys, "argv", ["fedrean", "study", "anonymizers", *words, "--run-dir",
                                      str(tmp_path / "s"), "--data-dir", str(tmp_path / "d")])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    assert left.value.code == 2 and line in capsys.readouterr().err


def test_a_hospital_makes_the_pooled_runs_steps_in_every_stage() -> None:
    settings = compose_settings([])
    longer = releases.as_long(settings, 3)
    for stage in STAGES:
        assert longer.stage(stage).rounds == 3 * settings.stage(stage).rounds
        assert longer.stage(stage).epochs == settings.stage(stage).epochs


def test_no_two_methods_look_alike() -> None:
    assert len({look(number) for number in range(len(METHODS))}) == len(METHODS)
    assert all(colour[:3] != pytest.approx((0.498, 0.498, 0.498), abs=0.01)
               for _, colour in map(look, range(len(METHODS))))
