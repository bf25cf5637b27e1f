"""What is left of the diagnosis, by networks that sat in no loss, by waves and by beats.

A network that sat in the anonymizer's loss flatters it: the label may have been written into the
signal for that network alone. So independent networks judge beside it, and the difference is
flagged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.anonymizers.beat_classifier import BeatClassifier, premature
from common.anonymizers.contract import Labelled
from common.audits.beat_classes import Classify, classes_agree
from common.audits.utility import diagnosis, gain
from common.audits.waves import waves_agree
from common.models.classifier import Classifier
from common.results import Estimate
from common.training import Indices, predict, seed_from
from server.attackers import ARCHITECTURES, train_diagnosis
from server.attacks.case import Case
from server.bundles import Bundles
from server.learned import not_learned

Floats = NDArray[np.float64]
Scores = Mapping[str, tuple[Floats, Floats]]  # network -> of clean and of released, [n, 4] each

_WRITTEN = "the label was written into the signal"
_FIRST = "inception_time"  # the architecture of `Case.independent`


def attack(case: Case) -> dict[str, Any]:
    """Utility of the test windows that were released.

    Returns:
        patients: "in training" and "reserved" (of patients that no training of the anonymizer
            saw), each networks (name -> clean, released, gain) and excess (how much more the
            frozen network gains than the independent ones). "retrained" is compared with the
            network of the same architecture and seed that was trained on clean windows. Empty
            where no window is labelled.
        flags: lines about networks that were written for, or did not learn.
        waves: of `waves_agree`.
        beats: of `classes_agree`, by a classifier that learned the annotated beats of clean
            training windows; without annotations by a rule of RR intervals.
    """
    bundles = case.bundles.of_released()
    rows = bundles.rows("test")
    scores = _scores(case, bundles, rows) if case.independent else {}
    people = {"in training": ~bundles.reserved[rows], "reserved": bundles.reserved[rows]}
    patients = {name: _judged(scores, bundles, rows, chosen)
                for name, chosen in people.items() if scores and chosen.any()}
    case.progress("delineating windows before and after")
    beats = None if bundles.beats is None else bundles.beats.select(rows)
    versions = (bundles.clean[rows], bundles.released[rows],
                float(case.settings.profile.sampling_rate), bundles.patient[rows])
    return {
        "patients": patients,
        "flags": [line for name, group in patients.items() for line in _flags(name, group)],
        "waves": waves_agree(*versions, beats=beats),
        "beats": classes_agree(*versions, _beat_classifier(case), beats=beats),
    }


def _beat_classifier(case: Case) -> Classify:
    """Of the clean training windows' annotated beats, or the rule that needs none."""
    bundles, rows = case.bundles, case.bundles.rows("train")
    if bundles.beats is None:
        return lambda lead, time, rate: premature(time)
    case.progress("training a beat classifier on clean windows")
    known = Labelled(
        bundles.clean[rows], float(case.settings.profile.sampling_rate),
        bundles.allowed[rows].astype(np.int64), bundles.slot[rows], bundles.patient[rows],
        bundles.sex[rows], bundles.age[rows], bundles.beats.select(rows))
    return BeatClassifier(known, seed_from(case.settings, "auditor", "beats") % 2**31).classify


def _scores(case: Case, bundles: Bundles, rows: Indices) -> Scores:
    """Of the frozen network where there is one, the retrained one, and the independent ones."""
    clean, released = bundles.clean[rows], bundles.released[rows]
    found = {}
    for seed in range(case.settings.audit.seeds):
        for architecture in ARCHITECTURES:
            name = f"{architecture}-{seed}" if seed else architecture
            network = _independent(case, name, architecture)
            found[name] = (predict(network, clean).double().numpy(),
                           predict(network, released).double().numpy())
    case.progress("retraining a diagnosis network on released windows")
    folder = case.folder / "retrained"  # a file's name seeds the training: the same as on clean
    folder.mkdir(exist_ok=True)
    retrained = train_diagnosis(bundles, bundles.released, case.settings,
                                folder / "independent.safetensors", _FIRST)
    others = {"retrained": (found[_FIRST][0], predict(retrained, released).double().numpy())}
    if bundles.frozen:
        others["frozen"] = _frozen(bundles, rows)
    return {**others, **found}


def _independent(case: Case, name: str, architecture: str) -> Classifier:
    if name == _FIRST and case.independent:
        return case.independent
    case.progress(f"training an independent diagnosis network: {name}")
    return train_diagnosis(case.bundles, case.bundles.clean, case.settings,
                           case.folder / f"independent-{name}.safetensors", architecture)


def _frozen(bundles: Bundles, rows: Indices) -> tuple[Floats, Floats]:
    clean, released = (np.concatenate(bundles.frozen[f"diagnosis-{version}"])[rows].astype(float)
                       for version in ("clean", "released"))
    return clean, released


def _judged(scores: Scores, bundles: Bundles, rows: Indices,
            chosen: NDArray[np.bool_]) -> dict[str, Any]:
    """Each network on the chosen windows, and how much more the frozen one gains."""
    allowed, patient = bundles.allowed[rows[chosen]], bundles.patient[rows[chosen]]
    kept = {name: (clean[chosen], released[chosen]) for name, (clean, released) in scores.items()}
    tree: dict[str, Any] = {"networks": {
        name: {"clean": diagnosis(pair[0], allowed, patient),
               "released": diagnosis(pair[1], allowed, patient),
               "gain": gain([pair], allowed, patient)} for name, pair in kept.items()}}
    if "frozen" in kept:
        independent = [pair for name, pair in kept.items() if name not in ("frozen", "retrained")]
        tree["excess"] = gain([kept["frozen"]], allowed, patient, beyond=independent)
    return tree


def _flags(who: str, group: dict[str, Any]) -> list[str]:
    """What the figures of one group of patients warn of."""
    networks = group["networks"]
    clean: dict[str, Estimate] = {name: row["clean"]["macro_auroc"]
                                  for name, row in networks.items() if name != "retrained"}
    lines = not_learned({}, clean)
    best = max(leaf.value for name, leaf in clean.items() if name != "frozen")
    for name, row in networks.items():
        change: Estimate = row["gain"]
        said = f"the {name} network's macro-AUROC on the release changes by {_signed(change)}"
        # Two trainings differ by luck, which no interval over patients knows.
        lucky = name == "retrained" and not row["released"]["macro_auroc"].value > best
        if change.low > 0 and not lucky:
            lines.append(f"{said}: {_WRITTEN}")
        elif name == "frozen" and change.value > 0:
            lines.append(f"{said}, an interval that reaches 0: it may be chance, or {_WRITTEN}")
    if "excess" in group and group["excess"].low > 0:
        lines.append(f"the frozen network's macro-AUROC changes by {_signed(group['excess'])} more "
                     f"than that of independent networks: {_WRITTEN} for the network that sat in "
                     "the loss, and its figure is not the utility")
    return [f"patients {who}: {line}" for line in lines]


def _signed(found: Estimate) -> str:
    return f"{found.value:+.4f} ({found.low:+.4f} to {found.high:+.4f})"
