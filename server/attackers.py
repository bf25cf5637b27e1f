"""The auditor's own networks, trained on bundles: attackers, and the independent diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.config import Settings
from common.models.classifier import Classifier
from common.models.cnn_lstm import CNNLSTM
from common.models.files import load_state, save_state
from common.models.inception_time import InceptionTime
from common.models.resnet1d import ResNet1D
from common.protocol import AGE_BANDS, ARRHYTHMIA_CLASSES, SEXES
from common.training import (
    Schedule,
    allowed_loss,
    device_of,
    masked_loss,
    predict,
    seed_from,
    shifted,
    shuffled,
    train,
)
from server.bundles import Bundles

Windows = NDArray[np.float32]

ARCHITECTURES: dict[str, Callable[[int, int], ResNet1D | InceptionTime | CNNLSTM]] = {
    "resnet1d": lambda width, leads: ResNet1D(width, leads, nn.BatchNorm1d),
    "inception_time": lambda width, leads: InceptionTime(max(4, width // 2), leads),
    "cnn_lstm": CNNLSTM,
}  # width of the auditor's networks, leads -> backbone


class Attacker(nn.Module):
    """One network that tells identity, sex and age at once.

    Sharing the backbone makes the attacker stronger, not weaker: sex and age are functions of the
    identity that it learns.
    """

    def __init__(self, width: int, leads: int, patients: int,
                 architecture: str = "resnet1d") -> None:
        super().__init__()
        self.sizes = (patients, len(SEXES), len(AGE_BANDS))
        self.classifier = Classifier(ARCHITECTURES[architecture](width, leads), sum(self.sizes))

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> logits of identity, sex and age side by side."""
        out: Tensor = self.classifier(x)
        return out

    def answers(self, windows: Windows) -> dict[str, NDArray[np.float64]]:
        """Scores {reid, sex, age}, each [n, classes]."""
        scores = predict(self, windows).double().numpy()
        parts = np.split(scores, np.cumsum(self.sizes)[:-1], axis=1)
        return dict(zip(("reid", "sex", "age"), parts, strict=True))

    def embed(self, windows: Windows) -> NDArray[np.float32]:
        """Embeddings before the head, [n, d]."""
        return predict(self.classifier.backbone, windows).numpy()


def fit_kept(network: nn.Module, settings: Settings, kept: Path, n: int, steps: int,
             fetch: Callable[[NDArray[np.int64]], dict[str, Tensor]],
             loss: Callable[[nn.Module, dict[str, Tensor]], Tensor]) -> None:
    """Train, or load what an interrupted audit has trained.

    Args:
        network: on its device; trained in place.
        settings: of the run; `audit` says how long and how fast.
        kept: file of the trained weights; its name seeds the training.
        n: windows that `fetch` may be asked for.
        steps: of the optimizer.
        fetch: indices below n -> tensors; "x" (B, leads, L) is rotated in time at random.
        loss: (network, tensors) -> loss of each window, (B,).
    """
    if kept.exists():
        network.load_state_dict(load_state(kept))
        return
    audit, seed = settings.audit, seed_from(settings, "auditor", kept.stem)
    torch.manual_seed(seed)
    torch.set_num_threads(settings.threads)
    optimizer = torch.optim.AdamW(network.parameters(), lr=audit.lr, weight_decay=1e-2)
    generator = np.random.default_rng(seed + 1)
    batches = islice(shuffled(n, audit.batch, steps, seed), steps)
    train(network, optimizer, batches, lambda i: shifted(fetch(i), generator), loss,
          Schedule(audit.lr, 0, steps))
    save_state(kept, network.state_dict(), {"network": kept.stem})


def present(windows: Windows, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the rows whose window is there, and not NaN."""
    return np.asarray(rows[~np.isnan(windows[rows, 0, 0])])


def train_attacker(bundles: Bundles, windows: Windows, settings: Settings, kept: Path,
                   start: Attacker | None = None, architecture: str = "resnet1d") -> Attacker:
    """Train on the training part of `windows`: clean, or released for the retrained attacker.

    Windows that are NaN were not released.

    Args:
        bundles: labels and parts of the windows.
        windows: [n, leads, L].
        settings: of the run.
        kept: file of the trained weights; its name seeds the training.
        start: an attacker to go on from: who retrains on releases also knows clean recordings.
        architecture: of `ARCHITECTURES`; that of `start`, where there is one.
    """
    rows, device = present(windows, bundles.rows("train")), device_of(settings.device)
    torch.manual_seed(seed_from(settings, "auditor", kept.stem, "weights"))
    attacker = Attacker(settings.audit.width, windows.shape[1], int(bundles.patient.max()) + 1,
                        architecture)
    if start:
        attacker.load_state_dict(start.state_dict())
    attacker.to(device)
    labels = {"identity": bundles.patient, "sex": bundles.sex, "age": bundles.age}

    def fetch(i: NDArray[np.int64]) -> dict[str, Tensor]:
        batch = {key: torch.from_numpy(value[rows[i]]) for key, value in labels.items()}
        batch["x"] = torch.from_numpy(windows[rows[i]])
        return {key: value.to(device) for key, value in batch.items()}

    def loss(network: nn.Module, b: dict[str, Tensor]) -> Tensor:
        identity, sex, age = torch.split(network(b["x"]), list(attacker.sizes), dim=1)
        return (masked_loss(identity, b["identity"]) + 0.3 * masked_loss(sex, b["sex"])
                + 0.3 * masked_loss(age, b["age"]))

    steps = settings.audit.steps
    if start:  # half as many again on top of the clean attacker's
        steps = max(1, steps // 2)
    fit_kept(attacker, settings, kept, len(rows), steps, fetch, loss)
    return attacker


def train_diagnosis(bundles: Bundles, windows: Windows, settings: Settings, kept: Path,
                    architecture: str = "inception_time") -> Classifier:
    """A diagnosis network that is in no loss, so nothing was tuned to please it.

    Args:
        bundles: labels and parts of the windows.
        windows: [n, leads, L]: clean, or released for one that is retrained on the release.
        settings: of the run.
        kept: file of the trained weights; its name seeds the training.
        architecture: of `ARCHITECTURES`.
    """
    rows, device = present(windows, bundles.rows("train")), device_of(settings.device)
    rows = rows[bundles.allowed[rows] != (1 << len(ARRHYTHMIA_CLASSES)) - 1]
    torch.manual_seed(seed_from(settings, "auditor", kept.stem, "weights"))
    backbone = ARCHITECTURES[architecture](settings.audit.width, windows.shape[1])
    network = Classifier(backbone, len(ARRHYTHMIA_CLASSES)).to(device)

    def fetch(i: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"x": torch.from_numpy(np.array(windows[rows[i]])).to(device),
                "allowed": torch.from_numpy(bundles.allowed[rows[i]].astype(np.int64)).to(device)}

    fit_kept(network, settings, kept, len(rows), settings.audit.steps, fetch,
             lambda net, b: allowed_loss(net(b["x"]), b["allowed"]))
    return network
