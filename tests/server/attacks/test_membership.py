"""Membership attacks on networks whose answer is known: one that memorises, one that never trained.

A window's bass tells the label, but that of non-members is another than of members, so who has
learnt the members is wrong of the others; what else is heard early and late in a recording has
nothing in common, so only memory can bring a patient's halves together.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from common.config import Audit, Profile, Settings, Training
from common.models.classifier import build, shared_state
from common.models.files import save_state
from common.protocol import STAGES
from common.training import predict
from server.attacks import membership, membership_references
from server.attacks.case import Case
from server.attacks.membership import verdict
from server.attacks.references import References, can_train, halves
from server.attacks.signals import Signal, released, signals
from server.bundles import Bundles

PATIENTS, WINDOWS = 24, 4
BRIEF = Training(1, 20, 24, 1e-2, 0.0)


def settings(epochs=1, **changed):
    profile = Profile(sampling_rate=50, seconds=2.0, vit_width=32, vit_depth=1, vit_survival=1.0,
                      resnet_width=4, unet_width=4, unet_levels=2)
    stages = dict.fromkeys(STAGES, Training(1, epochs, 12, 2e-3, 0.0))
    return Settings(threads=1, device="cpu", profile=profile, audit=Audit(references=4, shadows=4),
                    **{**stages, **changed})


def bundles(sites="AB", patients=PATIENTS, wrong=1):
    """Hospitals of equally many patients, half of whom are reserved: chords, four windows each."""
    generator = np.random.default_rng(0)
    patient = np.repeat(np.arange(patients), WINDOWS)
    n, reserved = len(patient), patient % 2 == 1
    bass = np.repeat(generator.integers(0, 2, patients), 2)
    bass[1::2] = 1 - bass[1::2]  # of the later half
    bass = np.repeat(bass, WINDOWS // 2)
    notes = np.array([12 + generator.permutation(20)[:3] for _ in range(2 * patients)])
    notes = np.repeat(notes, WINDOWS // 2, axis=0)
    notes = np.c_[np.array([4, 40])[bass], notes]  # cycles a window
    phase = 6.3 * generator.random((n, 4, 1))
    time = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    waves = np.sin(notes[:, :, None] * time + phase).mean(1, keepdims=True)
    clean = (waves / 2 + 0.5).astype(np.float32)
    label = (bass + wrong * reserved) % 2
    zero = np.zeros(n, dtype=np.int64)
    info = [{"site": site} for site in sites]
    hospital = patient * len(sites) // patients
    return Bundles(clean, clean, patient, patient, hospital, zero, label, label, zero,
                   np.tile(np.arange(WINDOWS) * 2.0, patients), (1 << label).astype(np.uint8),
                   reserved, {}, info)


def attacked(made, chosen, folder, networks):
    """A case in which these networks (stage -> network) are what left the hospitals."""
    frozen = {}
    for stage, network in networks.items():
        save_state(folder / "models" / f"{stage}.safetensors", shared_state(stage, network), {})
        if stage in ("diagnosis", "sex", "age"):
            answers = predict(network, made.clean).numpy()
            for version in ("clean", "released"):
                frozen[f"{stage}-{version}"] = np.split(answers, len(made.info))
    return Case(replace(made, frozen=frozen), chosen, folder / "audit", lambda what: None,
                folder / "models")


def untrained(chosen):
    return {stage: build(stage, chosen, 1, 2, 5) for stage in STAGES}


@pytest.fixture(scope="module")
def memorised(tmp_path_factory):
    """Trained on the members alone, by the references' own training."""
    made, chosen = bundles("A"), settings(20, identity=BRIEF, sex=BRIEF)
    longer = replace(chosen, identity=Training(1, 400, 24, 5e-3, 0.0))
    folder, members = tmp_path_factory.mktemp("memory"), np.arange(PATIENTS) % 2 == 0
    networks = untrained(chosen)
    for stage, recipe in (("diagnosis", chosen), ("sex", chosen), ("identity", longer)):
        trainer = References(Case(made, recipe, folder / stage, print), members[None])
        networks[stage] = trainer.network(stage, 0, trainer.groups[0])
    return attacked(made, chosen, folder, networks)


@pytest.mark.parametrize("stage", ["diagnosis", "identity", "sex"])
def test_a_model_that_memorises_is_found_by_its_loss(memorised, stage):
    found = membership.attack(memorised)[stage]["loss"]
    assert found["patient"]["auc"].value > 0.98
    at = found["patient"]["at"][0]
    assert at["at"] == pytest.approx(1 / 12) and at["tpr"].value > 0.9
    assert found["hospitals"]["A"]["members"] == found["hospitals"]["A"]["non_members"] == 12


def test_a_model_that_memorises_is_found_against_references(memorised):
    nobody = replace(memorised.bundles, age=np.full(PATIENTS * WINDOWS, -1))
    only = replace(memorised, bundles=nobody, models=None)
    found = membership_references.attack(only)
    assert set(found) == {"diagnosis", "sex"}  # nobody's age is known, no weights were given
    assert (only.folder / "reference" / "identity-0.safetensors").exists()  # where sex starts
    for stage in found:
        row = found[stage]["rmia"]["patient"]
        assert (row["auc"].value > 0.95, row["at"][0]["tpr"].value > 0.8) == (True, True), stage


def test_lira_reads_shadows_that_remember_whom_they_saw(memorised, monkeypatch):
    """One patient in three is a hundred times easier, seen or not, which hides who is a member from
    the loss and, its likelihood being near 1 either way, from RMIA."""
    generator = np.random.default_rng(0)
    case = replace(memorised, models=None, bundles=replace(
        memorised.bundles, sex=np.full(PATIENTS * WINDOWS, -1),
        age=np.full(PATIENTS * WINDOWS, -1)), settings=replace(
            memorised.settings, audit=Audit(references=2, shadows=16)))
    patient = case.bundles.patient
    hard = np.where(patient % 3 == 0, 0.01, 1)

    def remembered(references, stage, signal):
        seen = references.inside[:, patient]
        return hard * np.where(seen, 0.1, 1) * generator.lognormal(0, 0.2, seen.shape)

    target = hard * np.where(case.bundles.reserved, 1, 0.1)
    monkeypatch.setattr(membership_references, "reference_losses", remembered)
    monkeypatch.setattr(membership_references, "signals", lambda case: {
        "diagnosis": Signal(np.arange(len(patient)), target, lambda network, rows: target[rows])})
    found = membership_references.attack(case)["diagnosis"]
    assert found["rmia"]["patient"]["auc"].value < 0.95
    assert found["lira"]["patient"]["auc"].value == 1
    assert found["lira"]["patient"]["at"][0]["tpr"].value == 1


def test_untrained_models_tell_nothing(tmp_path):
    """Of 120 patients: an AUC by chance is within .16 of one half, three of its deviations."""
    made, chosen = bundles(patients=120, wrong=0), settings()
    case = attacked(made, chosen, tmp_path, untrained(chosen))
    found, against = membership.attack(case), membership_references.attack(case)
    assert set(found) == set(against) == set(STAGES)
    trees = [tree for stages in (found, against) for attacks in stages.values()
             for tree in attacks.values()]
    assert len(trees) == 11
    for tree in trees:
        assert tree["patient"]["auc"].n == 120
        assert tree["patient"]["auc"].value == pytest.approx(0.5, abs=0.16)


def test_references_are_kept_and_of_the_run_s_kind(tmp_path):
    made, chosen = bundles(), settings()
    case = attacked(made, chosen, tmp_path, untrained(chosen))
    first = membership_references.attack(case)
    names = {path.name for path in (case.folder / "reference").iterdir()}
    assert names == {f"{stage}-{k}.safetensors" for stage in STAGES
                     for k in range(4)}
    told = []
    again = membership_references.attack(replace(case, progress=told.append))
    assert told == [] and repr(again) == repr(first)


def test_each_patient_is_in_half_of_the_references():
    patient = np.repeat(np.arange(11), 2)
    hospital = np.where(patient < 5, 0, 1)
    inside = halves(patient, hospital, 8, seed=3)
    assert (inside.sum(0) == 4).all() and (inside[::2] ^ inside[1::2]).all()
    assert set(inside[:, :5].sum(1)) <= {2, 3} and (inside[:, 5:].sum(1) == 3).all()
    assert len({row.tobytes() for row in inside}) > 4


def test_hospitals_that_train_alone_have_references_of_their_own(tmp_path):
    made, chosen = bundles(), settings(training="local")
    for site in "AB":
        network = build("identity", chosen, 1, 2, ord(site))
        save_state(tmp_path / site / "models" / "identity.safetensors",
                   shared_state("identity", network), {})
    case = Case(made, chosen, tmp_path / "audit", lambda what: None, tmp_path / "models")
    found = membership_references.attack(case)
    assert set(found) == {"identity"}
    assert sorted(path.stem for path in (tmp_path / "audit" / "reference").iterdir()) == [
        f"identity-{number}-{hospital}" for number in range(4) for hospital in (0, 1)]
    weights = [next(released(case, "identity", h).parameters()) for h in (0, 1)]
    assert not torch.equal(*weights)


def test_only_windows_that_were_released_count_for_the_anonymizer(tmp_path):
    made, chosen = bundles(), settings()
    some = made.released.copy()
    some[:6] = np.nan
    case = attacked(replace(made, released=some), chosen, tmp_path, untrained(chosen))
    assert signals(case)["anonymizer"].rows.tolist() == list(range(6, PATIENTS * WINDOWS))


def test_an_identity_model_is_asked_across_the_times_of_a_recording(tmp_path, monkeypatch):
    chosen, order = settings(), np.random.default_rng(0).permutation(PATIENTS * WINDOWS)
    made = bundles("A")
    made = replace(made, patient=made.patient[order], start=made.start[order],
                   record=made.record[order])
    halves_of = []

    def asked(embedding, patient, late):
        halves_of.append(late)
        return np.zeros(len(late))

    monkeypatch.setattr("server.attacks.signals.enrolment_loss", asked)
    case = attacked(made, chosen, tmp_path, {"identity": untrained(chosen)["identity"]})
    signals(replace(case, bundles=made))
    assert [late.tolist() for late in halves_of] == [(made.start >= WINDOWS).tolist()]


def test_without_models_or_answers_there_is_nothing_to_attack(tmp_path):
    case = Case(bundles(), settings(), tmp_path, lambda what: None, None)
    assert membership.attack(case) == {} and membership_references.attack(case) == {}
    assert can_train(case, "sex") and not can_train(case, "anonymizer")


def test_patients_are_compared_within_their_hospital():
    """A hospital whose windows are all easy says nothing of membership."""
    made = bundles()
    made = replace(made, reserved=np.where(made.hospital == 0, made.patient < 9, made.patient < 14))
    noise = np.random.default_rng(1).normal(size=len(made.patient))
    easy = verdict(made, np.arange(len(noise)), noise + 20 * made.hospital)["patient"]["auc"]
    plain = verdict(made, np.arange(len(noise)), noise)["patient"]["auc"]
    assert easy.value == pytest.approx(plain.value) and plain.low < 0.5 < plain.high
    alone = replace(made, reserved=(made.hospital == 0) & made.reserved)  # B has no non-member
    found = verdict(alone, np.arange(len(noise)), noise)
    assert found["patient"]["auc"].n == 12 and found["hospitals"]["B"]["non_members"] == 0
