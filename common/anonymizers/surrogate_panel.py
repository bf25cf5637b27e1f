"""A panel of clean-trained networks that says whether a surrogate shows its arrhythmia.

It only chooses among drawings of population shapes, so that it can add no ripple that pleases a
network. Still, what it has read is no independent judge of the release: other architectures and
seeds are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled
from common.anonymizers.fitting import fit_network
from common.models.classifier import Classifier
from common.models.cnn_lstm import CNNLSTM
from common.protocol import ARRHYTHMIA_CLASSES
from common.training import allowed_loss, predict, shifted

_WIDTHS = (8, 12)  # of the panel's own networks


class Panel:
    """Networks that read the arrhythmia of a window."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        self.members = members

    def clarity(self, windows: Floats, arrhythmia: NDArray[np.int64]) -> NDArray[np.float64]:
        """Geometric mean over the panel of the probability of each window's class, [n].

        Args:
            windows: [n, leads, L].
            arrhythmia: index into ARRHYTHMIA_CLASSES, [n].
        """
        rows = np.arange(len(windows))
        each = [predict(member, windows).log_softmax(1).numpy()[rows, arrhythmia]
                for member in self.members]
        return np.asarray(np.exp(np.mean(each, axis=0)))


def fit_panel(train: Labelled, frozen: Frozen, effort: Effort) -> Panel:
    """The frozen diagnosis, and CNN-LSTMs trained on clean training windows."""
    decided = train.select(np.flatnonzero(train.allowed != (1 << len(ARRHYTHMIA_CLASSES)) - 1))
    members: list[nn.Module] = [frozen.diagnosis]
    for number, width in enumerate(_WIDTHS):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(effort.seed + number)
            network = Classifier(CNNLSTM(width, train.x.shape[1]), len(ARRHYTHMIA_CLASSES))
        turns = np.random.default_rng(effort.seed + number)

        def loss(net: nn.Module, batch: dict[str, Tensor],
                 turns: np.random.Generator = turns) -> Tensor:
            batch = shifted(batch, turns)
            return allowed_loss(net(batch["x"]), batch["allowed"])

        fit_network(network, loss, decided, effort, lr=4e-3, weight_decay=1e-2)
        members.append(network.eval().requires_grad_(False))
    return Panel(members)
