"""An attacker on embeddings: a network whose only aim is that a person is near itself.

Source: ArcFace (Deng et al., 2019): cross-entropy of scaled cosines with an angular margin between
the own patient's direction and all others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.audits.matching import unit
from common.config import Settings
from common.models.resnet1d import ResNet1D
from common.training import device_of, predict, seed_from
from server.attackers import Windows, fit_kept, present
from server.bundles import Bundles

_SCALE, _MARGIN = 16.0, 0.2  # the paper's 64 and .5 are for 85,000 people


class MetricAttacker(nn.Module):
    """Windows -> embeddings; cosines with one direction a patient are used in training alone."""

    def __init__(self, width: int, leads: int, patients: int) -> None:
        super().__init__()
        self.backbone = ResNet1D(width, leads, nn.BatchNorm1d)
        self.embedding = nn.Linear(self.backbone.features, 128, bias=False)
        self.norm = nn.BatchNorm1d(128)
        self.direction = nn.Parameter(torch.randn(patients, 128))

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, 128]."""
        out: Tensor = self.norm(self.embedding(self.backbone(x)))
        return out

    def loss(self, x: Tensor, patient: Tensor) -> Tensor:
        """Cross-entropy with the margin on the own patient's angle, (B,)."""
        cosine = nn.functional.normalize(self(x)) @ nn.functional.normalize(self.direction).T
        angle = torch.acos(cosine.clamp(-1 + 1e-6, 1 - 1e-6))
        own = nn.functional.one_hot(patient, cosine.shape[1]).bool()
        harder = torch.where(own, torch.cos((angle + _MARGIN).clamp(max=torch.pi)), cosine)
        return nn.functional.cross_entropy(_SCALE * harder, patient, reduction="none")

    def embed(self, windows: Windows) -> NDArray[np.float32]:
        """Embeddings of length 1, [n, 128]."""
        return unit(predict(self, windows).numpy())


def train_metric(bundles: Bundles, windows: Windows, settings: Settings, kept: Path,
                 start: MetricAttacker | None = None) -> MetricAttacker:
    """Train on the training part of `windows`: clean, or released for the retrained attacker.

    Args:
        bundles: whose windows they are, and their parts.
        windows: [n, leads, L].
        settings: of the audit.
        kept: file of the trained weights; its name seeds the training.
        start: an attacker to go on from, for half as many steps.
    """
    rows, device = present(windows, bundles.rows("train")), device_of(settings.device)
    torch.manual_seed(seed_from(settings, "auditor", kept.stem, "weights"))
    attacker = MetricAttacker(settings.audit.width, windows.shape[1],
                              int(bundles.patient.max()) + 1)
    if start:
        attacker.load_state_dict(start.state_dict())
    attacker.to(device)

    def fetch(i: NDArray[np.int64]) -> dict[str, Tensor]:
        return {"x": torch.from_numpy(np.array(windows[rows[i]])).to(device),
                "patient": torch.from_numpy(bundles.patient[rows[i]]).to(device)}

    steps = max(1, settings.audit.steps // 2) if start else settings.audit.steps
    fit_kept(attacker, settings, kept, len(rows), steps, fetch,
             lambda _, batch: attacker.loss(batch["x"], batch["patient"]))
    return attacker
