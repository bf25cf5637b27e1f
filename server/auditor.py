"""Step 6: the server attacks the release, as hard as a determined recipient could.

The auditor's own attackers lead; the frozen networks that were the training signal are a second,
weaker row ("training_signal"), since the anonymizer was trained against exactly them. What is
always done is here; the attacks that `audit.attacks` names have a file each in server/attacks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.audits.attributes import attribute
from common.audits.reidentification import closed_set
from common.audits.utility import diagnosis, prd
from common.config import Settings
from common.results import SCHEMA_VERSION, Estimate, read_json, write_json
from common.scenarios import scenario_of
from common.training import predict
from server.attackers import Windows
from server.attacks import (
    identification,
    inversion,
    membership,
    membership_references,
    purified,
    recording,
    retraining,
    unseen,
    utility,
)
from server.attacks.case import Case, classified
from server.bundles import Bundles
from server.canary_bound import lower_bound, refuted
from server.learned import not_learned, unlike

# Of `common.protocol.ATTACKS`; each answers with one tree, kept as <name>.json.
ATTACKS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "retraining": retraining.attack,
    "identification": identification.attack,
    "recording": recording.attack,
    "utility": utility.attack,
    "unseen": unseen.attack,
    "purified": purified.attack,
    "membership": membership.attack,
    "membership_references": membership_references.attack,
    "inversion": inversion.attack,
}


def audit(case: Case) -> dict[str, Any]:
    """All attacks; the metrics.json tree without timing and curves.

    Of two folders there are no frozen networks, accounts or guarantee, and no diagnosis where the
    originals are not labelled: those parts are absent.
    """
    bundles, settings = case.bundles, case.settings
    case.folder.mkdir(parents=True, exist_ok=True)
    clean = _row(case, "clean")
    made = {name: attacked(case, name) for name in settings.audit.attacks}
    retrained = classified(bundles, case.retrained, bundles.released)
    accounts = {info["site"]: info["privacy"] for info in bundles.info if "privacy" in info}
    proved = lower_bound(accounts)
    return {
        "schema_version": SCHEMA_VERSION,
        "clean": clean,
        "anonymizers": {"rean" if bundles.frozen else "release": {
            **_row(case, "released"),
            "retrained": {"100": {"resnet1d": retrained}},
            **_cost(bundles, settings)}},
        **made,
        "privacy": accounts,
        **({"lower_bound": proved} if proved else {}),
        "data": {info["site"]: info["data"] for info in bundles.info},
        "warnings": [*_warnings(clean), *unlike(made.get("identification", {})),
                     *refuted(accounts, proved), *_not_in_the_account(settings)],
        "guarantee": scenario_of(
            settings.training, settings.privacy.unit, settings.engine,
            settings.privacy.trust).guarantee,
        "networks": case.folder.name,  # of the run's folders, the one that holds the auditor's
        "config": settings.as_dict(),
        "seed": settings.seed,
    }


def audit_embeddings(case: Case) -> dict[str, Any]:
    """Of embeddings that a user gives only their neighbours and probes are asked."""
    settings = case.settings
    case.folder.mkdir(parents=True, exist_ok=True)
    found = attacked(case, "identification")
    return {
        "schema_version": SCHEMA_VERSION,
        "identification": found,
        "data": {info["site"]: info["data"] for info in case.bundles.info},
        "warnings": unlike(found),
        "config": settings.as_dict(),
        "seed": settings.seed,
    }


def _not_in_the_account(settings: Settings) -> list[str]:
    """What a run's epsilon says nothing of."""
    if settings.privacy.unit == "none":
        return []
    said = []
    if settings.privacy.noise != "secure":
        said.append("noise came from torch's generator (privacy.noise=fast), whose state can be "
                    "told from what it gave: epsilon is a simulation's, and protects nobody")
    if settings.start:
        said.append(f"training started from the models of {settings.start}: what these tell of "
                    "patients is not in this run's epsilon, which holds alone only if no patient "
                    "of this run was in that one")
    return said


def _warnings(clean: dict[str, Any]) -> list[str]:
    """Networks that are too weak on clean windows to be witnesses."""
    attackers = {"the auditor's attacker": clean}
    diagnoses = {}
    if "training_signal" in clean:
        attackers["the training signal"] = clean["training_signal"]
        diagnoses["frozen"] = clean["macro_auroc"]
    if "independent" in clean:
        diagnoses["independent"] = clean["independent"]["macro_auroc"]
    return not_learned(attackers, diagnoses)


def attacked(case: Case, name: str) -> dict[str, Any]:
    """What an attack found, now or in an earlier call that asked the same."""
    kept, asked = case.folder / f"{name}.json", asked_of(case.settings)
    if kept.exists():
        before = read_json(kept)
        if before.get("asked") == asked:  # absent in those of an older version
            return dict(before["found"])
    case.progress(f"attack: {name}")
    write_json(kept, {"asked": asked, "found": ATTACKS[name](case)})
    return dict(read_json(kept)["found"])


def asked_of(settings: Settings, *more: str) -> dict[str, Any]:
    """Settings of the audit that figures depend on: which attacks are made, and shown, does not.

    Args:
        settings: of the run or the audit.
        more: further settings of the audit to leave out.
    """
    return {key: value for key, value in settings.as_dict()["audit"].items()
            if key not in ("attacks", "examples", *more)}


def _row(case: Case, version: str) -> dict[str, Any]:
    """Leakage and utility of one version of the windows, clean or released."""
    bundles = case.bundles
    windows = bundles.clean if version == "clean" else bundles.released
    row = {**classified(bundles, case.attacker, windows),
           **_utility(case, version, windows, reserved=False),
           "reserved": _utility(case, version, windows, reserved=True)}
    if bundles.frozen:
        row["training_signal"] = _training_signal(bundles, version)
    return row


def _cost(bundles: Bundles, settings: Settings) -> dict[str, float]:
    """Windows that the anonymizer saw (expected, where batches are Poisson), and its time."""
    if not bundles.frozen:
        return {}
    passes = settings.anonymizer.rounds * settings.anonymizer.epochs
    return {"windows_seen": passes * int(np.sum((bundles.part == 0) & ~bundles.reserved)),
            "ms_per_window": float(np.mean([info["ms_per_window"] for info in bundles.info]))}


def _frozen(bundles: Bundles, stage: str, version: str) -> NDArray[np.float64]:
    return np.concatenate(bundles.frozen[f"{stage}-{version}"]).astype(np.float64)


def _utility(case: Case, version: str, windows: Windows, reserved: bool) -> dict[str, Any]:
    """What is left of the diagnosis, for patients in training (as in the paper) or the others."""
    bundles = case.bundles
    rows = bundles.released_rows("test")
    rows = rows[bundles.reserved[rows] == reserved]
    if not len(rows):
        return {}
    allowed, patient = bundles.allowed[rows], bundles.patient[rows]
    found: dict[str, Any] = {}
    if bundles.frozen:
        found |= diagnosis(_frozen(bundles, "diagnosis", version)[rows], allowed, patient)
    if case.independent:
        scores = predict(case.independent, windows[rows]).double().numpy()
        found["independent"] = diagnosis(scores, allowed, patient)
    return {**found, "prd": prd(bundles.clean[rows], windows[rows], patient)}


def _training_signal(bundles: Bundles, version: str) -> dict[str, Estimate]:
    """The frozen biometric networks; identity inside each hospital, by its own head."""
    test = bundles.rows("test")
    test = test[~bundles.reserved[test]]
    widest = max(scores.shape[1] for scores in bundles.frozen[f"identity-{version}"])
    # A hospital with fewer slots has no score for the others: they can never be the highest.
    identity = np.concatenate([
        np.pad(scores, ((0, 0), (0, widest - scores.shape[1])), constant_values=-np.inf)
        for scores in bundles.frozen[f"identity-{version}"]]).astype(np.float64)
    hit = closed_set(identity[test], bundles.slot[test], bundles.patient[test])
    return {
        "reid": Estimate(hit.value, hit.low, hit.high, hit.n, 1 / widest),
        "sex": attribute(_frozen(bundles, "sex", version)[test], bundles.sex[test],
                         bundles.patient[test]),
        "age": attribute(_frozen(bundles, "age", version)[test], bundles.age[test],
                         bundles.patient[test]),
    }
