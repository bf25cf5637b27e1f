"""Whole runs, as small as they can be: they show that the parts fit, not that networks learn."""

import json
import re
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
import wfdb

import fedrean
from client.hospital import Hospital
from client.ledger import Ledger
from common.anonymizers.rean import prd
from common.ecg.windows import Store
from common.errors import InputError
from server.overrides import compose_settings
from server.run_directory import create_run, open_run
from simulations.consortium import run
from tests.small import NETWORKS

SMALL = [*NETWORKS, "cohort.patients=4", "cohort.minutes=3", "audit.steps=20",
         *(f"{stage}.rounds=2" for stage in ("diagnosis", "identity")),
         *(f"{stage}.rounds=1" for stage in ("sex", "age", "anonymizer")),
         *(f"{stage}.epochs=1" for stage in ("diagnosis", "identity", "sex", "age", "anonymizer"))]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


def simulate(folder, data, *overrides, stop_at=None):
    if not (folder / "config.yaml").exists():
        create_run(folder, compose_settings([*SMALL, *overrides]))

    def progress(stage, number, rounds):
        if (stage, number) == stop_at:
            raise KeyboardInterrupt

    run(folder, open_run(folder), data, progress)
    return json.loads((folder / "metrics.json").read_text())


def numbers(metrics):
    tree = json.loads(json.dumps({k: v for k, v in metrics.items() if k != "timing"}))
    tree["anonymizers"]["rean"].pop("ms_per_window")
    return tree


@pytest.fixture(scope="session")
def federated(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "a"
    return folder, simulate(folder, data)


def test_every_step_leaves_its_output(federated):
    folder, metrics = federated
    assert set(metrics["data"]) == {"mitdb", "ltdb", "incartdb", "shdb-af"}
    assert {p.stem for p in (folder / "models").iterdir()} == {
        "diagnosis", "identity", "sex", "age", "anonymizer"}
    page = (folder / "report.html").read_text()
    assert "What an attacker can do" in page and "<svg" in page and "http-equiv" not in page
    row = metrics["anonymizers"]["rean"]
    for leaf in (row["reid"], row["retrained"]["100"]["resnet1d"]["reid"], row["macro_auroc"]):
        assert set(leaf) == {"value", "low", "high", "n", "chance"} and leaf["n"] > 0
    assert metrics["clean"]["reid"]["chance"] == pytest.approx(1 / 16)
    assert all(account["patient"] == "not bounded" for account in metrics["privacy"].values())


def test_release_reads_back_as_wfdb_and_tells_no_name(federated):
    folder, metrics = federated
    for site in metrics["data"]:
        release = next((folder / "hospitals" / site).glob("*/release"))
        names = (release / "RECORDS").read_text().split()
        assert not set(names) & set(metrics["data"][site]["records"])
        record = wfdb.rdrecord(str(release / names[0]))
        assert record.fs == 50 and record.units == ["NU"]
        values = record.p_signal[np.isfinite(record.p_signal)]
        assert values.min() >= -0.081 and values.max() <= 1.081


def test_distortion_weights_of_rean_grow_over_the_rounds(federated, data, tmp_path):
    folder, _ = federated
    settings = open_run(folder)
    settings = replace(settings, anonymizer=replace(settings.anonymizer, rounds=4))
    state = next((folder / "hospitals" / "mitdb").iterdir())
    store = Store.open(next((data / "stores").glob("mitdb-*")))
    hospital = Hospital("mitdb", store, state.parent, Ledger(tmp_path / "ledger"), settings,
                        state.name)
    batch = hospital.fetch(hospital.usable("anonymizer")[:4])
    x, rean = batch["x"], settings.rean
    y = x + rean.bound * torch.tanh(torch.ones_like(x))
    full = rean.prd * prd(x, y) / 100 + rean.l1 * (y - x).abs().flatten(1).mean(1)
    first, last = (hospital.loss("anonymizer", n)(torch.ones_like, batch) for n in (1, 4))
    torch.testing.assert_close(last - first, full)


def test_the_anonymizers_balanced_training_set(federated, data, tmp_path):
    folder, _ = federated
    settings = open_run(folder)
    state = next((folder / "hospitals" / "mitdb").iterdir())
    store = Store.open(next((data / "stores").glob("mitdb-*")))

    def usable(windows, stage):
        changed = replace(settings, rean=replace(settings.rean, windows=windows))
        return Hospital("mitdb", store, state.parent, Ledger(tmp_path / "l"), changed,
                        state.name).usable(stage)

    few, every = usable(12, "anonymizer"), usable(0, "anonymizer")
    assert len(few) == 12 and set(few) < set(every)
    assert np.bincount(store.labels("paper")[few]).max() <= 6 < len(every) / 4
    assert np.array_equal(usable(12, "diagnosis"), usable(0, "diagnosis"))
    with pytest.raises(InputError, match="rean.windows is 12; allowed: 0 where privacy.unit is"):
        replace(settings, rean=replace(settings.rean, windows=12),
                privacy=replace(settings.privacy, unit="window"))


def test_a_finished_run_is_attacked_with_more(federated, tmp_path, monkeypatch, capsys):
    folder = shutil.copytree(federated[0], tmp_path / "run")
    monkeypatch.setattr(sys, "argv", [
        "fedrean", "audit", "--run", str(folder), "audit.attacks=[identification,recording]",
        "audit.encoders=[fiducial]", "--json", "--fail-above", "reid=0"])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    metrics = json.loads(capsys.readouterr().out)
    assert left.value.code == 1 and metrics["config"]["audit"]["steps"] == 20  # the run's own
    assert metrics["networks"] == "audit"  # its networks serve again
    assert metrics["clean"] == federated[1]["clean"] and "membership" not in metrics
    for encoders in metrics["identification"].values():
        assert set(encoders) == {"fiducial"}  # not what the run itself had asked and kept
    assert "From which recording" in (folder / "report.html").read_text()


def test_reserved_patients_are_in_no_training(federated):
    folder, metrics = federated
    for site in metrics["data"]:
        index = np.load(folder / "bundles" / site / "index.npy")
        slot = np.load(folder / "bundles" / site / "slot.npy")
        assert index["reserved"].any()
        assert (slot[index["reserved"]] == -1).all() and (slot[~index["reserved"]] >= 0).all()


def test_same_seed_same_numbers_even_after_an_interruption(federated, data, tmp_path):
    folder = tmp_path / "b"
    with pytest.raises(KeyboardInterrupt):
        simulate(folder, data, stop_at=("identity", 1))
    assert not (folder / "metrics.json").exists()
    assert numbers(simulate(folder, data)) == numbers(federated[1])


def test_window_privacy_is_spent_to_the_target_and_no_loss_leaves(data, tmp_path):
    metrics = simulate(tmp_path / "p", data, "privacy=window", "privacy.epsilon=4")
    for site, account in metrics["privacy"].items():
        assert account["unit"] == "window" and account["patient"] == "not bounded"
        assert 3.8 < account["epsilon"] <= 4.0
        ledger = Ledger(tmp_path / "p" / "ledgers" / f"{site}.sqlite")
        assert ledger.account(1e-5).releases == 7
    assert all(v is None for losses in metrics["curves"].values() for v in losses)


@pytest.mark.parametrize("training", ["pooled", "local"])
def test_other_training_modes(training, data, tmp_path):
    metrics = simulate(tmp_path / training, data, f"training={training}")
    assert set(metrics["data"]) == ({"pooled"} if training == "pooled"
                                    else {"mitdb", "ltdb", "incartdb", "shdb-af"})
    assert metrics["clean"]["reid"]["n"] > 0


def test_several_leads_go_through_windows_networks_release_and_audit(consortium, data, tmp_path):
    files = []
    for name, leads in (("incartdb", "[II, V1]"), ("ltdb", "[[ECG1], [ECG2]]")):
        text = (consortium / name / "hospital.yaml").read_text()
        text = re.sub("leads: .*", f"leads: {leads}", text)
        text = re.sub("path: .*", f"path: {consortium / name}", text)
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(text)
    names = ",".join(map(str, files))
    metrics = simulate(tmp_path / "run", data, f"hospitals=[{names}]", "leads=2")
    assert metrics["data"]["incartdb"]["records_by_leads"] == {"II + V1": 7}
    for site in ("incartdb", "ltdb"):
        clean, released = (np.load(tmp_path / "run" / "bundles" / site / f"{which}.npy")
                           for which in ("clean", "released"))
        assert clean.shape == released.shape and clean.shape[1] == 2
        changed = np.abs(released - clean).max(axis=(0, 2))
        assert ((changed > 0) & (changed <= 0.08 + 1e-6)).all()  # each lead, within the bound
        assert not np.array_equal(clean[:, 0], clean[:, 1])
        release = next((tmp_path / "run" / "hospitals" / site).glob("*/release"))
        name = (release / "RECORDS").read_text().split()[0]
        assert wfdb.rdrecord(str(release / name)).n_sig == 2
    assert metrics["clean"]["reid"]["n"] > 0
    assert not any("ages" in facts for facts in metrics["data"].values())
