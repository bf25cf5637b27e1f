"""Who is it, without a class for anybody: an embedding in which a patient's windows lie together.

Under privacy per patient a row of a classifier's head is impossible: it would be one patient's own.
So a window is compared with another window of the same patient, and with public windows, which cost
no privacy; a patient's gradient never depends on other patients.
Source: the InfoNCE loss of van den Oord et al. (2018), with public negatives.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from common.models.ecg_vit import ECGViT

TEMPERATURE = 0.1
SIZE = 32  # of an embedding


class Verifier(nn.Module):
    """[B, leads, L] -> embeddings of length 1, [B, SIZE]."""

    def __init__(self, backbone: ECGViT) -> None:
        super().__init__()
        self.backbone = backbone
        self.projection = nn.Linear(backbone.features, SIZE)

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, SIZE]."""
        return nn.functional.normalize(self.projection(self.backbone(x)), dim=1)


def verification_logits(query: Tensor, own: Tensor, public: Tensor) -> Tensor:
    """Logits of "which of these is the same patient", (B, 1 + P); the right answer is 0.

    Args:
        query: embeddings in question, (B, SIZE).
        own: of the same patients, (B, SIZE).
        public: of people who cost no privacy, (P, SIZE).
    """
    same = (query * own).sum(1, keepdim=True)  # (B, 1)
    return torch.cat([same, query @ public.T], 1) / TEMPERATURE


def verification_loss(network: nn.Module, x: Tensor, public: Tensor) -> Tensor:
    """Cross-entropy of each window with the patient's next one and public windows, (W,).

    Args:
        network: a Verifier.
        x: windows of one patient, (W, leads, L).
        public: windows of public people, (P, leads, L).
    """
    embedded = network(torch.cat([x, public]))
    own, others = embedded[: len(x)], embedded[len(x):]
    logits = verification_logits(own, own.roll(1, 0), others)
    answer = torch.zeros(len(x), dtype=torch.long, device=x.device)
    return nn.functional.cross_entropy(logits, answer, reduction="none")
