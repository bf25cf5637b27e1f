"""Noise on the segments of the heartbeat that an identifier's attention ranks highest.

Source: Wang et al., "TransECG", arXiv:2503.13495 (2025), explains a ViT's identification by its
attention to segments of the heartbeat and anonymizes nothing; REAN (arXiv:2607.06037), section
IV-A, makes a training-free baseline of it: Gaussian noise on the union of the QRS and P-R segments
that the attention ranks most identifying. Kept: the ViT, the two segments, their ranking, the
noise. REAN leaves open, and here is chosen:

- Segments: fixed spans around each R peak, `QRS` and `PR`, as a P wave's start is not annotated.
- Attention: rollout (Abnar & Zuidema, ACL 2020) of the class token, heads averaged; patches become
  samples by linear interpolation.
- Ranking: over the segments of one window, which has two for each beat. "The segments ranked
  highest" may also be read as every QRS and P-R, which is `share` 1.
- Noise: REAN's PRD, 14.8 % against the 24.0 % of the same noise on everything, is what one scale on
  .38 of all samples gives: about all segments at 88 beats/min. `scale` and `share` are searched.
- R peaks: annotations where the window has any, else a detector's.

On synthetic patients (its test) it costs a good frozen diagnosis as much AUROC as Gaussian noise of
the same PRD, 45 %, and hides the patient less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range
from common.ecg.delineation import r_peaks
from common.models.classifier import Classifier
from common.models.ecg_vit import ECGViT

PR = (-0.20, -0.05)  # s from the R peak: P wave and P-R segment
QRS = (-0.05, 0.06)
BATCH = 64  # windows whose attention maps are held at once


def segments(peaks: NDArray[np.int64], rate: float, length: int) -> NDArray[np.int64]:
    """First sample and end of the P-R and QRS segments that lie, at least in part, in a window.

    Args:
        peaks: samples of the R peaks, [beats].
        rate: Hz.
        length: L, samples.

    Returns:
        [segments, 2], at most two a beat.
    """
    spans = np.rint(np.array([PR, QRS]) * rate).astype(np.int64)  # [2, 2]
    ends = (peaks[:, None, None] + spans).reshape(-1, 2).clip(0, length)
    return ends[ends[:, 0] < ends[:, 1]]


def rollout(maps: list[Tensor]) -> Tensor:
    """How much each patch reaches the class token through all blocks, (B, T).

    Args:
        maps: of each block, (B, heads, T + 1, T + 1), the class token first.
    """
    unit = torch.eye(maps[0].shape[-1], device=maps[0].device)
    flow = unit.expand(len(maps[0]), -1, -1)  # (B, T+1, T+1)
    for attention in maps:
        flow = (0.5 * attention.mean(1) + 0.5 * unit) @ flow  # half for the block's shortcut
    return flow[:, 0, 1:]


class TransECG:
    """x + N(0, scale^2) on the top `share` of a window's QRS and P-R segments; no clipping.

    Every lead gets noise at the same samples. A window in which no beat is annotated or found is
    released as it is; `marked` says which those are.

    Args:
        scale: standard deviation, in the window's [0, 1] range.
        share: of a window's segments that get noise, at least one of them.
    """

    name = "transecg"
    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {"scale": Range(0.02, 1.0, log=True),
                                            "share": Range(0.1, 1.0)}
    network: ECGViT

    def __init__(self, scale: float = 0.17, share: float = 0.5) -> None:
        self.scale, self.share = scale, share

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Keep the frozen identity network, whose attention ranks; nothing is learned.

        Raises:
            TypeError: where it has no attention to look at.
        """
        network = frozen.identity
        if not (isinstance(network, Classifier) and isinstance(network.backbone, ECGViT)):
            raise TypeError("TransECG ranks by the attention of an identity network on an ECGViT")
        self.network = network.backbone.to(effort.device)

    @torch.no_grad()
    def attention(self, x: Floats) -> Floats:
        """The identity network's attention to each sample, [n, leads, L] -> [n, L]."""
        device, parts = next(self.network.parameters()).device, []
        self.network.eval()
        for first in range(0, len(x), BATCH):
            batch = torch.from_numpy(np.array(x[first : first + BATCH])).to(device)
            patches = rollout(self.network.attention(batch))[:, None]  # (B, 1, T)
            parts.append(nn.functional.interpolate(patches, size=x.shape[2], mode="linear"))
        found: Floats = torch.cat(parts)[:, 0].cpu().numpy()
        return found

    def marked(self, data: Labelled) -> NDArray[np.bool_]:
        """Samples that get noise, [n, L]; a row without any: no beat was annotated or found."""
        marked = np.zeros((len(data), data.x.shape[2]), dtype=bool)
        attention = self.attention(data.x) if len(data) else marked
        for i, row in enumerate(marked):
            times, _ = data.beats.of(i)
            times = times if len(times) else r_peaks(data.x[i, 0], data.rate)
            peaks = np.rint(times * data.rate).astype(np.int64)
            spans = segments(peaks, data.rate, len(row))
            rank = np.argsort([-attention[i, a:b].mean() for a, b in spans], kind="stable")
            for first, end in spans[rank[: int(np.ceil(self.share * len(spans)))]]:
                row[first:end] = True
        return marked

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] with noise on the marked samples; values may leave [0, 1]."""
        noise = np.random.default_rng(seed).standard_normal(data.x.shape, dtype=np.float32)
        return data.x + np.float32(self.scale) * noise * self.marked(data)[:, None]
