"""What every attack is given: evidence, settings, and networks that several attacks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from common.audits.attributes import attribute
from common.audits.reidentification import closed_set
from common.config import Settings
from common.ecg.labels import decided
from common.models.classifier import Classifier
from common.results import Estimate
from common.training import Indices
from server.attackers import Attacker, Windows, train_attacker, train_diagnosis
from server.bundles import Bundles

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Case:
    """One release, and who attacks it.

    Args:
        bundles: what the hospitals exported, or what two folders hold. A released window that is
            NaN was not released.
        settings: of the run, or of the audit alone.
        folder: where the auditor keeps its networks, so that an interrupted audit goes on.
        progress: told what is done next.
        models: folder of the released models, `<stage>.safetensors`; None where only windows are.
    """

    bundles: Bundles
    settings: Settings
    folder: Path
    progress: Progress
    models: Path | None = None

    @cached_property
    def attacker(self) -> Attacker:
        """The auditor's own, trained on clean windows."""
        self.progress("training an attacker on clean windows")
        return train_attacker(self.bundles, self.bundles.clean, self.settings,
                              self.folder / "clean.safetensors")

    def attacker_of(self, architecture: str, seed: int = 0) -> Attacker:
        """One of another architecture or seed, trained on clean windows."""
        if (architecture, seed) == ("resnet1d", 0):
            return self.attacker
        name = f"clean-{architecture}" + (f"-{seed}" if seed else "")
        self.progress(f"training an attacker on clean windows: {architecture}, seed {seed}")
        return train_attacker(self.bundles, self.bundles.clean, self.settings,
                              self.folder / f"{name}.safetensors", architecture=architecture)

    @cached_property
    def retrained(self) -> Attacker:
        """The same, trained on with all released windows."""
        self.progress("retraining an attacker on released windows")
        return train_attacker(self.bundles, self.bundles.released, self.settings,
                              self.folder / "retrained.safetensors", start=self.attacker)

    @cached_property
    def independent(self) -> Classifier | None:
        """A diagnosis network that sat in no loss, trained on clean windows; None without labels.

        Windows that are diagnosed are needed in the training part, of two classes or more.
        """
        known = decided(self.bundles.allowed[self.bundles.rows("train")])
        if len(np.unique(known[known >= 0])) < 2:
            return None
        self.progress("training an independent diagnosis network")
        return train_diagnosis(self.bundles, self.bundles.clean, self.settings,
                               self.folder / "independent.safetensors")


def classified(bundles: Bundles, attacker: Attacker, windows: Windows,
               rows: Indices | None = None) -> dict[str, Estimate]:
    """ReID, sex and age by a classifier; ReID also on patients that no training saw.

    Args:
        bundles: labels of the windows.
        attacker: who answers.
        windows: [n, leads, L] in the bundles' order.
        rows: to answer for; default: what was released of the test part.
    """
    rows = bundles.released_rows("test") if rows is None else rows
    return answered(bundles, attacker, windows[rows], rows)


def answered(bundles: Bundles, attacker: Attacker, windows: Windows,
             rows: Indices) -> dict[str, Estimate]:
    """As `classified`, where only the windows of these rows are at hand, [len(rows), leads, L]."""
    answers, patient = attacker.answers(windows), bundles.patient[rows]
    reserved = np.asarray(bundles.reserved[rows])
    return {
        "reid": closed_set(answers["reid"], patient, patient),
        "reid_reserved": closed_set(answers["reid"][reserved], patient[reserved],
                                    patient[reserved]),
        "sex": attribute(answers["sex"], bundles.sex[rows], patient),
        "age": attribute(answers["age"], bundles.age[rows], patient),
    }
