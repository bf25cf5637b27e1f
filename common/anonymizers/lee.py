"""Noise on learned features, most where identity is read and the arrhythmia is not.

Source: Lee et al., Biomedical Signal Processing and Control 112, 108374 (2026), as REAN
(arXiv:2607.06037), section IV-A, summarises and bridges it: attention mappers find the regions of a
feature that identity rests on, noise weighted by the difference of attention perturbs them, and an
encoder and a decoder, REAN's addition, make waveforms of both ends. Kept: the two mappers, the
difference as the weight of the noise, both bridges. REAN fixes no more, the paper itself was not at
hand; here is chosen:

- Bridges: a convolutional autoencoder of four samples a position, trained to reconstruct alone.
- Mappers: convolutions, a softmax over positions, and a linear head on the features averaged by it.
- Weight: sigmoid((a_identity - a_arrhythmia) / temperature), each attention scaled to a mean of 1.
- Noise: N(0, scale^2) by that weight, on features of unit variance.
- All parts train in the same steps; the mappers' gradients stop at the features.

REAN reports that the noise fools the method's own identity head and not an independent network. On
the embedded hospital (300 steps) its own head is no easier to fool: on the noisy features, with
`scale` 1, it still identifies .97 of windows after 1.00, on re-encoded releases .85, where the
frozen network falls from .90 to .82 at a PRD of 18 %. What REAN reports of the latter holds: at a
small PRD (6 %) identity stays, .87.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range
from common.anonymizers.fitting import Batch, fit_network
from common.models.resnet1d import group_norm
from common.protocol import ARRHYTHMIA_CLASSES
from common.training import allowed_loss, masked_loss

STRIDE = 4  # samples a position
FEATURES, WIDTH = 16, 32  # channels: of the features, inside the networks
BATCH = 256


def _conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv1d(inputs, outputs, 7, padding=3), group_norm(outputs), nn.SiLU())


class Mapper(nn.Module):
    """A classifier of features that says where it looks."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(FEATURES, WIDTH), _conv(WIDTH, WIDTH))
        self.score = nn.Conv1d(WIDTH, 1, 1)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Features (B, F, T) -> logits (B, classes), attention (B, T) with a sum of 1."""
        y = self.body(z)  # (B, W, T)
        attention = self.score(y)[:, 0].softmax(1)
        return self.head((y * attention[:, None]).sum(2)), attention


class LeeNetwork(nn.Module):
    """Encoder, decoder and the two mappers."""

    def __init__(self, leads: int, identities: int) -> None:
        super().__init__()
        # Without GroupNorm, which would lose each window's level, the bridges leave a PRD of 4 %
        # after 300 steps; with it 7 %.
        self.encoder = nn.Sequential(
            nn.Conv1d(leads, FEATURES, 3 * STRIDE, STRIDE, STRIDE),
            nn.BatchNorm1d(FEATURES, affine=False))
        self.decoder = nn.Sequential(
            nn.Conv1d(FEATURES, WIDTH, 7, padding=3), nn.SiLU(),
            nn.Conv1d(WIDTH, leads * STRIDE, 7, padding=3))
        self.identity, self.arrhythmia = Mapper(identities), Mapper(len(ARRHYTHMIA_CLASSES))

    def encode(self, x: Tensor) -> Tensor:
        """[B, leads, L] in [0, 1] -> features of unit variance, (B, F, L / 4)."""
        z: Tensor = self.encoder(2 * x - 1)
        return z

    def decode(self, z: Tensor) -> Tensor:
        """Features (B, F, T) -> [B, leads, 4 T]."""
        y = self.decoder(z)  # (B, leads*4, T)
        b, c, t = y.shape
        out: Tensor = y.reshape(b, c // STRIDE, STRIDE, t).transpose(2, 3).flatten(2)
        return out

    def weight(self, z: Tensor, temperature: float) -> Tensor:
        """How much noise each position of features (B, F, T) gets, (B, T) in (0, 1)."""
        difference = self.identity(z)[1] - self.arrhythmia(z)[1]
        return torch.sigmoid(z.shape[2] * difference / temperature)


def lee_loss(network: LeeNetwork, batch: Batch) -> Tensor:
    """Reconstruction of each window and the cross-entropy of each mapper, (B,)."""
    x = batch["x"]  # (B, leads, L)
    z = network.encode(x)
    change = (network.decode(z) - x).flatten(1).square().mean(1)
    fixed = z.detach()
    return (change + masked_loss(network.identity(fixed)[0], batch["identity"])
            + allowed_loss(network.arrhythmia(fixed)[0], batch["allowed"]))


class LeeNoise:
    """Attention-difference-weighted noise on the features of an autoencoder.

    Args:
        scale: standard deviation of the noise where its weight is 1, in that of the features.
        temperature: how little the difference of attention counts; much of it is uniform noise.
    """

    name = "lee"
    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {"scale": Range(0.05, 5.0, log=True),
                                            "temperature": Range(0.05, 5.0, log=True)}
    network: LeeNetwork

    def __init__(self, scale: float = 0.5, temperature: float = 0.5) -> None:
        self.scale, self.temperature = scale, temperature

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Train autoencoder and mappers together for `effort.steps`; no frozen network is used.

        Raises:
            ValueError: windows whose length is no multiple of 4 samples.
        """
        if train.x.shape[2] % STRIDE:
            raise ValueError(f"windows of {train.x.shape[2]} samples: no multiple of {STRIDE}")
        torch.manual_seed(effort.seed)
        network = self.network = LeeNetwork(train.x.shape[1], int(train.identity.max()) + 1)
        fit_network(network, lambda _, batch: lee_loss(network, batch), train, effort, lr=1e-2)

    def features(self, x: Floats, seed: int = 0) -> Tensor:
        """Noisy features, the method's native output; windows [n, leads, L] -> (n, F, L / 4)."""
        network, generator = self.network.eval(), torch.Generator().manual_seed(seed)
        device, parts = next(network.parameters()).device, []
        with torch.no_grad():
            for first in range(0, max(1, len(x)), BATCH):
                z = network.encode(torch.from_numpy(np.array(x[first : first + BATCH])).to(device))
                noise = torch.randn(z.shape, generator=generator).to(device)
                weight = network.weight(z, self.temperature)
                parts.append(z + self.scale * weight[:, None] * noise)
        return torch.cat(parts)

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] -> the same shape, decoded from noisy features; values may leave [0, 1]."""
        z = self.features(data.x, seed)
        with torch.no_grad():
            parts = [self.network.decode(part).cpu() for part in torch.split(z, BATCH)]
        released: Floats = torch.cat(parts).numpy()
        return released
