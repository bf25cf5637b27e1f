"""Purifiers that are trained: one on clean recordings alone, one on pairs of what was released.

Both are a U-Net, as the anonymizer is, that predicts what to add to a window. Its skips make the
first a stronger purifier than an autoencoder with a bottleneck, which the REAN paper
(arXiv:2607.06037, 2026) leaves open; both work at any length that the anonymizer works at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from common.models.unet1d import UNet1D
from common.training import Indices, Loss, device_of, seed_from
from server.attackers import Windows, fit_kept
from server.attacks.case import Case

NOISE = 0.1  # of the window's range: the largest standard deviation of what is added
SMOOTH = 0.1  # s: the longest moving average that colours it


class Restorer(nn.Module):
    """[B, leads, L] -> the window with what the U-Net believes was lost, [B, leads, L]."""

    def __init__(self, width: int, levels: int, leads: int) -> None:
        super().__init__()
        self.unet = UNet1D(width, levels, leads)

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, leads, L]."""
        out: Tensor = x + self.unet(x)
        return out


def denoiser(case: Case) -> Restorer:
    """Taught to take noise off clean training windows; it never sees a release.

    Noise is Gaussian, its standard deviation uniform in 0 to `NOISE` for each window, white or
    coloured by a moving average of up to `SMOOTH`: what an anonymizer adds is seldom white.

    Source: Vincent et al., "Stacked denoising autoencoders" (JMLR 11, 2010).
    """
    longest = round(SMOOTH * case.settings.profile.sampling_rate)

    def loss(network: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        x = batch["x"]  # (B, leads, L)
        return _squared(network(x + noise(x, longest)), x)

    return _trained(case, "denoiser", case.bundles.rows("train"), [case.bundles.clean], loss)


def restorer(case: Case) -> Restorer:
    """Taught to undo the release, on training windows of which a recipient has both versions."""
    bundles = case.bundles.of_released()

    def loss(network: nn.Module, batch: dict[str, Tensor]) -> Tensor:
        released, clean = batch["x"].chunk(2, dim=1)
        return _squared(network(released), clean)

    # One on top of the other, as leads of one window, so that both are rotated alike.
    return _trained(case, "restorer", bundles.rows("train"), [bundles.released, bundles.clean],
                    loss)


def noise(x: Tensor, longest: int) -> Tensor:
    """What is added to (B, leads, L): an average over 1 (white) to `longest` samples colours it."""
    width = int(max(1, longest) ** float(torch.rand(())))
    drawn = torch.randn(*x.shape[:2], x.shape[2] + width - 1, device=x.device)
    coloured: Tensor = nn.functional.avg_pool1d(drawn, width, stride=1) * width**0.5
    return coloured * NOISE * torch.rand(len(x), 1, 1, device=x.device)


def _squared(restored: Tensor, clean: Tensor) -> Tensor:
    """Mean squared error of each window, (B,)."""
    return (restored - clean).square().mean((1, 2))


def _trained(case: Case, name: str, rows: Indices, versions: Sequence[Windows],
             loss: Loss) -> Restorer:
    """Train on the rows of these versions, or load; on the device that the settings name."""
    settings, device = case.settings, device_of(case.settings.device)
    kept = case.folder / f"{name}.safetensors"
    torch.manual_seed(seed_from(settings, "auditor", kept.stem, "weights"))
    network = Restorer(settings.audit.width, settings.profile.unet_levels,
                       versions[0].shape[1]).to(device)

    def fetch(i: Indices) -> dict[str, Tensor]:
        seen = np.concatenate([version[rows[i]] for version in versions], axis=1)
        return {"x": torch.from_numpy(seen).to(device)}

    fit_kept(network, settings, kept, len(rows), settings.audit.steps, fetch, loss)
    return network
