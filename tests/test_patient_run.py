"""A whole run private per patient, as small as it can be."""

import json
import math
import shutil

import numpy as np
import pytest

from client.ledger import Ledger
from common.errors import BudgetError, InputError
from common.models.files import load_state
from common.models.verifier import SIZE
from common.privacy.accounting import Spend, epsilon
from common.protocol import STAGES
from server.overrides import compose_settings
from server.run_directory import create_run, open_run
from simulations.consortium import run
from tests.small import STUDY

DELTA = 1e-5


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "a"
    data = folder.parent / "data"
    create_run(folder, compose_settings([
        *STUDY, "privacy=patient", "privacy.epsilon=3", "privacy.q=0.5", "privacy.public=2",
        "privacy.canaries=20", "privacy.split.anonymizer=4"]))
    run(folder, open_run(folder), data, lambda stage, number, rounds: None)
    return folder, json.loads((folder / "metrics.json").read_text())


def test_the_account_is_the_patients_and_within_the_target(finished):
    folder, metrics = finished
    for site, account in metrics["privacy"].items():
        found = Ledger(folder / "ledgers" / f"{site}.sqlite").account(DELTA)
        assert found.unit == account["unit"] == "patient"
        assert found.epsilon_patient == pytest.approx(account["patient"])
        assert 2.9 < found.epsilon_patient <= 3.0
        releases = Ledger(folder / "ledgers" / f"{site}.sqlite").releases()
        sigma = releases[0].sigma
        # Two steps of q = .5 for each of five stages, one round each; half the noise in the last.
        assert [(r.q, r.sigma, r.steps) for r in releases] == [
            *[(0.5, sigma, 2)] * 4, (0.5, pytest.approx(sigma / 2), 2)]
        assert found.epsilon_patient == pytest.approx(epsilon(
            [Spend(0.5, sigma, 8), Spend(0.5, sigma / 2, 2)], DELTA))


def test_the_report_says_whose_account_it_is(finished):
    folder, metrics = finished
    page = (folder / "report.html").read_text()
    assert "per patient" in page and "private per patient of the hospital" in page
    assert metrics["curves"]["diagnosis"] == [None]  # no loss left


def test_canaries_of_the_run_stay_below_its_account(finished):
    folder, metrics = finished
    assert metrics["lower_bound"]["count"] == 20 * len(metrics["privacy"])
    for account in metrics["privacy"].values():
        assert 0 <= account["lower_bound"] < account["patient"]
        assert account["canaries"]["guesses"] == 4
    assert "canaries" in (folder / "report.html").read_text()


def test_the_identity_answers_are_of_slots(finished):
    folder, metrics = finished
    for site in metrics["data"]:
        scores = np.load(folder / "bundles" / site / "frozen-identity-clean.npy")
        slot = np.load(folder / "bundles" / site / "slot.npy")
        assert np.abs(scores).max() <= 1 + 1e-5
        assert scores.shape[1] == len(np.unique(slot[slot >= 0])) < SIZE
    assert math.isfinite(metrics["clean"]["training_signal"]["reid"]["value"])


def test_a_patients_cap_holds(finished):
    folder, metrics = finished
    ledger = Ledger(folder / "ledgers" / f"{next(iter(metrics['privacy']))}.sqlite")
    with pytest.raises(BudgetError, match="per patient"):
        ledger.charge("b", "sex", 1, "patient", Spend(0.5, 1.0, 10), DELTA, "0" * 64, 3.0)


def test_a_run_starts_from_anothers_models_and_trains_few_layers(finished, tmp_path):
    folder, _ = finished
    settings = compose_settings([
        *STUDY, "privacy=patient", "privacy.epsilon=3", "privacy.q=0.5", "privacy.public=2",
        f"start={folder}", "trainable=last", "audit.attacks=[]"])
    create_run(tmp_path / "b", settings)
    metrics = run(tmp_path / "b", open_run(tmp_path / "b"), folder.parent / "data",
                  lambda stage, number, rounds: None)
    assert any("started from the models of" in line and "not in this run's epsilon" in line
               for line in metrics["warnings"])
    for stage in STAGES:
        before, after = (load_state(one / "models" / f"{stage}.safetensors")
                         for one in (folder, tmp_path / "b"))
        changed = {name.split(".")[0] for name in before  # a mean of equals is equal but for bits
                   if (before[name] - after[name]).abs().max() > 1e-5}
        assert changed and changed <= {"head", "projection", "out"}


def test_a_start_that_is_none_is_refused(tmp_path):
    settings = compose_settings([*STUDY, f"start={tmp_path}"])
    with pytest.raises(InputError, match="start is .* cannot be read .* a finished run"):
        create_run(tmp_path / "b", settings)
    assert not (tmp_path / "b").exists()


def test_an_older_ledger_that_was_put_back_is_noticed_by_the_servers_echo(finished, tmp_path):
    folder, _ = finished
    settings = compose_settings([*STUDY, "privacy=patient", "privacy.epsilon=3", "privacy.q=0.5",
                                 "privacy.public=2", "diagnosis.rounds=3"])
    create_run(tmp_path / "b", settings)
    ledger, older = tmp_path / "b" / "ledgers" / "mitdb.sqlite", tmp_path / "older"

    def stop(stage, number, rounds):
        if (stage, number) == ("diagnosis", 1):
            shutil.copy(ledger, older)
        if (stage, number) == ("diagnosis", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "b", settings, folder.parent / "data", stop)
    shutil.copy(older, ledger)
    lines = []
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "b", settings, folder.parent / "data",
            lambda *done: stop("diagnosis", 2, 0) if done[:2] == ("diagnosis", 3) else None)
    journal = json.loads((tmp_path / "b" / "checkpoints" / "journal.json").read_text())
    lines = [line for line in journal["left_out"] if "mitdb" in line]
    assert lines and "the state of its ledger" in lines[0]
    log = next((tmp_path / "b" / "hospitals" / "mitdb").glob("errors.log")).read_text()
    assert "which the server names" in log


def test_noise_on_the_sum_alone(finished, tmp_path):
    folder, _ = finished
    settings = compose_settings([
        *STUDY, "privacy=patient", "privacy.epsilon=3", "privacy.q=0.5", "privacy.public=2",
        "privacy.trust=aggregate", "privacy.missing=1", "audit.attacks=[]"])
    create_run(tmp_path / "b", settings)
    told = []
    metrics = run(tmp_path / "b", settings, folder.parent / "data", lambda *done: told.append(done))
    assert [done for done in told if done[0] == "sex"] == [("sex", 1, 1)]  # rounds, not steps
    assert "secure aggregation" in metrics["guarantee"]
    for site in metrics["data"]:
        ledger = Ledger(tmp_path / "b" / "ledgers" / f"{site}.sqlite")
        releases = ledger.releases()
        assert len(releases) == 10 and {r.trust for r in releases} == {"aggregate"}
        assert {r.steps for r in releases} == {1}
        assert 2.9 < ledger.account(DELTA).epsilon_patient <= 3.0
    kept = {path.name for path in (tmp_path / "b" / "checkpoints").iterdir()}
    assert {"sex-2.safetensors", "sex-2.moments.safetensors"} <= kept and len(kept) == 11
    two = metrics["privacy"]["mitdb"]["sites"]["2"]
    assert two > 1.5 * metrics["privacy"]["mitdb"]["tight"]["epsilon"]  # naive composition: 1.4


def test_what_makes_no_sense_is_refused():
    for words, line in ((["privacy=window", "privacy.trust=aggregate"], "hospital where privacy"),
                        (["privacy=window", "identity_by=embedding"], "slots where privacy.unit"),
                        (["privacy=patient", "identity_by=slots"], "embedding where privacy.unit"),
                        (["privacy=patient", "privacy.trust=aggregate", "training=pooled"],
                         "no scenario has training=pooled")):
        with pytest.raises(InputError, match=line):
            compose_settings(words)
