"""The inversions on a case as small as it can be, and that each part attacks what it says."""

import json
import shutil

import numpy as np
import pytest
import torch

from common.audits import inversion
from common.config import Audit, Profile, Settings
from common.models.classifier import build, shared_state
from common.models.files import save_state
from common.results import to_plain, write_json
from server.attacks import gradient_inversion, model_inversion
from server.attacks.case import Case
from server.attacks.inversion import attack
from server.auditor import ATTACKS
from server.bundles import Bundles
from server.report.inversion_figure import reconstructions
from server.report.page import render
from server.report.table import cell, prose

RATE, PATIENTS, EACH = 50, 4, 16


def made():
    """Patients whose beats differ in width; half of the windows for training, two hospitals."""
    generator = np.random.default_rng(0)
    patient = np.repeat(np.arange(PATIENTS), EACH)
    time = np.arange(8 * RATE) / RATE
    x = []
    for who in patient:
        at = np.arange(generator.uniform(0, 0.8), 8, 0.8)[:, None]
        beat = np.exp(-((time - at) / 0.03) ** 2)
        wave = 0.5 * np.exp(-((time - at - 0.15 - 0.04 * who) / 0.05) ** 2)
        x.append((beat + wave).sum(0) + generator.normal(0, 0.01, len(time)))
    clean = inversion.unit(torch.tensor(np.array(x), dtype=torch.float32)[:, None]).numpy()
    n = len(patient)
    zero, part = np.zeros(n, dtype=np.int64), np.where(np.arange(n) % 2, 2, 0)
    allowed = (1 << (np.arange(n) // 2 % 4)).astype(np.uint8)
    info = [{"site": name, "data": {}, "privacy": {}} for name in "ab"]
    return Bundles(clean, clean, patient, patient, patient % 2, part, zero, zero, zero,
                   8.0 * np.arange(n), allowed, zero.astype(bool), {}, info)


def settings():
    return Settings(threads=1, device="cpu", audit=Audit(steps=40, batch=16, width=4),
                    profile=Profile(sampling_rate=RATE, vit_width=16, vit_depth=1, resnet_width=4))


@pytest.fixture(scope="module", autouse=True)
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_inversion, "SHARE", 0.05)
        patch.setattr(gradient_inversion, "SHARE", 0.025)
        patch.setattr(gradient_inversion, "SIZES", {1: 2, 8: 1})
        yield


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A case, and what the attack found."""
    folder = tmp_path_factory.mktemp("inversion")
    for stage in ("diagnosis", "identity"):
        network = build(stage, settings(), 1, 2, 0)
        save_state(folder / "models" / f"{stage}.safetensors", shared_state(stage, network), {})
    (folder / "audit").mkdir()
    case = Case(made(), settings(), folder / "audit", lambda what: None, folder / "models")
    return case, attack(case)


def test_all_parts_are_there_are_kept_and_are_drawn(attacked):
    case, found = attacked
    assert ATTACKS["inversion"] is attack
    assert set(found["model"]) == {"real", "nothing", "head", "template"}
    assert set(found["model"]["head"]) == {"window", "beat"}
    rows = found["gradient"]["rows"]
    assert {name: set(kinds) for name, kinds in rows.items()} == {
        "easy": {"none", "weak", "window"}, "first": {"none", "weak", "window"}, "last": {"none"},
        "real": {"none"}}
    assert rows["first"]["window"]["8"]["correlation"].n == 8
    assert rows["first"]["none"]["1"]["labels"].value == 1
    assert set(found["gradient"]["linked"]["first"]) == {"none", "weak", "window"}
    assert found["gradient"]["weak"] == pytest.approx(1e-3 * found["gradient"]["sigma"])
    assert found["model"]["real"]["nearest"].value == 1  # the scores tell these patients apart
    write_json(case.folder / "inversion.json", found)
    assert json.loads((case.folder / "inversion.json").read_text()) == to_plain(found)
    figure = reconstructions(case.folder, RATE)
    assert figure.startswith("<svg")
    page = render("sections/inversion.html", case.folder / "page.html", cell=cell, prose=prose,
                  metrics={"inversion": to_plain(found)}, reconstructions=figure).read_text()
    assert "first round" in page and "<svg" in page and page.count("<table>") == 3
    said = []
    again = attack(Case(case.bundles, case.settings, case.folder, said.append, case.models))
    assert to_plain(again) == to_plain(found)
    assert not [line for line in said if line.startswith("inverting updates")]


def test_without_a_run_only_the_worst_case_is_left(attacked, tmp_path):
    case, _ = attacked
    for name in ("clean", "inversion-judge"):
        shutil.copy(case.folder / f"{name}.safetensors", tmp_path)
    found = attack(Case(case.bundles, case.settings, tmp_path, lambda what: None))
    assert set(found["model"]) == {"real", "nothing", "head"} and found["gradient"] == {}
    page = render("sections/inversion.html", tmp_path / "page.html", cell=cell, prose=prose,
                  metrics={"inversion": to_plain(found)}, reconstructions="").read_text()
    assert page.count("<table>") == 1 and "one update" not in page
    assert reconstructions(case.folder / "none", RATE) == ""


def test_a_prior_is_of_other_people(attacked):
    case, _ = attacked
    target = model_inversion.targets(case)
    assert target.people.tolist() == [0, 1, 2, 3]
    own = case.bundles.clean[case.bundles.patient == 2]
    assert np.isfinite(target.shapes).all() and len(own) == EACH
    for number in target.people:
        others = target.shapes[np.arange(PATIENTS) != number]
        assert target.beat.mean[number].numpy() == pytest.approx(others.mean(0), abs=1e-5)
    updates = gradient_inversion.drawn(case, np.arange(64), 8, 2)
    for patients, rows in zip(updates.patient, updates.others, strict=True):
        assert not set(patients) & set(case.bundles.patient[rows.ravel()])


def test_an_update_holds_the_windows_of_one_hospital_as_they_were_trained_on(attacked):
    case, _ = attacked
    rows = np.flatnonzero(case.bundles.part == 0)
    made = gradient_inversion.drawn(case, rows, 8, 2)
    for t in range(2):
        assert set(made.patient[t] % 2) == {t}
    x = made.x.flatten(0, 1).numpy()
    clean = case.bundles.clean[rows]
    assert np.sort(x, axis=2)[:, 0] == pytest.approx(  # the same samples, rotated
        np.stack([np.sort(clean, axis=2)[:, 0][np.abs(
            np.sort(clean, axis=2)[:, 0] - np.sort(one[0])).sum(1).argmin()] for one in x]))
    assert not any((one == clean).all(axis=(1, 2)).any() for one in x)


def test_the_noise_is_that_of_a_hospitals_run():
    from common.privacy.accounting import Spend, epsilon
    from common.training import sampling

    bundles, run = made(), settings()
    sigma = gradient_inversion.noise_multiplier(bundles, run)
    n = 16  # training windows of either hospital
    spends = []
    for stage in ("diagnosis", "identity", "sex", "age", "anonymizer"):
        q, steps = sampling(n, run.stage(stage))
        spends.append(Spend(q, sigma, steps * run.stage(stage).rounds))
    assert epsilon(spends, run.privacy.delta) == pytest.approx(8.0, rel=0.02)
