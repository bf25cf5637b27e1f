"""A small hospital with frozen networks that have learned, for the tests of every anonymizer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from common.anonymizers.contract import Effort, Frozen, Labelled, labelled
from common.anonymizers.fitting import fit_network
from common.audits.utility import diagnosis
from common.config import Profile, Settings
from common.ecg.hospital_file import load_hospital
from common.ecg.labels import decided
from common.ecg.synthetic import CohortSettings, write_consortium
from common.ecg.windows import WindowSettings, prepare
from common.models.classifier import Classifier, build
from common.models.resnet1d import ResNet1D
from common.protocol import ARRHYTHMIA_CLASSES, CLASSIFIER_STAGES
from common.training import allowed_loss, masked_loss, predict, shifted

STEPS = {"diagnosis": 400, "identity": 250, "sex": 150, "age": 150}
SEED = 0


@dataclass(frozen=True)
class Hospital:
    """Windows of training and test, and networks trained on the former."""

    train: Labelled
    test: Labelled
    frozen: Frozen
    settings: Settings

    def accuracy(self, stage: str, x: np.ndarray) -> float:
        """Share of test windows that a frozen network gets right in their version `x`."""
        answer = predict(getattr(self.frozen, stage), x).argmax(1).numpy()
        truth = (decided(self.test.allowed.astype(np.uint8)) if stage == "diagnosis"
                 else getattr(self.test, stage))
        return float(np.mean((answer == truth)[truth >= 0]))

    def auroc(self, x: np.ndarray) -> float:
        """Macro-AUROC of the frozen diagnosis in a version of the test windows.

        Accuracy says little here: two thirds of the windows are normal.
        """
        scores = predict(self.frozen.diagnosis, x).double().numpy()
        found = diagnosis(scores, self.test.allowed.astype(np.uint8), self.test.patient)
        return float(found["macro_auroc"].value)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads on every machine: their number changes the order of sums, so the networks."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The tests' own fits are too small to gain by a second one."""
    with threads(1):
        yield


@pytest.fixture(scope="session")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    """Six synthetic patients of mitdb's kind, 12 min each, at 100 Hz; nobody is reserved."""
    folder = tmp_path_factory.mktemp("hospital")
    [file] = write_consortium(folder, CohortSettings(6, 12.0, 0), ["mitdb"])
    store = prepare(load_hospital(Path(file)), folder / "s", WindowSettings(100, 8.0, 0.0, 0))
    train, test = (labelled(store, store.select(part), "strict") for part in ("train", "test"))
    settings = Settings(profile=Profile(resnet_width=8))
    with threads(2):
        networks = [_trained(stage, settings, train) for stage in CLASSIFIER_STAGES]
    return Hospital(train, test, Frozen(*networks).freeze(), settings)


def _trained(stage: str, settings: Settings, data: Labelled) -> torch.nn.Module:
    patients = int(data.identity.max()) + 1
    network = build(stage, settings, 1, patients, SEED)  # type: ignore[arg-type]
    if stage == "diagnosis":
        # With GroupNorm so few steps end at an AUROC of .83 to .98, by the number of threads.
        torch.manual_seed(SEED)
        backbone = ResNet1D(settings.profile.resnet_width, 1, torch.nn.BatchNorm1d)
        network = Classifier(backbone, len(ARRHYTHMIA_CLASSES))
    generator = np.random.default_rng(SEED)

    def loss(net: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        batch = shifted(batch, generator)
        if stage == "diagnosis":
            return allowed_loss(net(batch["x"]), batch["allowed"])
        return masked_loss(net(batch["x"]), batch[stage])

    fit_network(network, loss, data, Effort(STEPS[stage], seed=SEED), lr=3e-3, weight_decay=1e-2)
    return network
