"""InceptionTime: the auditor's independent diagnosis network, which sits in no loss.

Source: Ismail Fawaz et al. (2020): bottleneck, three kernels, max-pool branch, residual every
three modules; here six modules, and kernels for the strided stem's lower rate.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Inception(nn.Module):
    """[B, C, L] -> [B, 4 * filters, L]."""

    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__()
        self.bottleneck = nn.Conv1d(inputs, filters, 1, bias=False)
        self.branches = nn.ModuleList(
            nn.Conv1d(filters, filters, k, padding=k // 2, bias=False) for k in (5, 11, 23)
        )
        self.pool = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(inputs, filters, 1, bias=False))
        self.norm = nn.BatchNorm1d(4 * filters)

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, L] -> [B, 4 * filters, L]."""
        z = self.bottleneck(x)
        y = torch.cat([*(branch(z) for branch in self.branches), self.pool(x)], dim=1)
        return torch.relu(self.norm(y))


class InceptionTime(nn.Module):
    """[B, leads, L] in [0, 1] -> features [B, 4 * filters]."""

    def __init__(self, filters: int, leads: int) -> None:
        super().__init__()
        width = 4 * filters
        self.features = width
        # A strided stem: the original works at full length, at four times the cost.
        self.stem = nn.Conv1d(leads, filters, 7, 4, 3)
        self.blocks = nn.ModuleList(
            Inception(filters if i == 0 else width, filters) for i in range(6)
        )
        self.shortcuts = nn.ModuleList(
            nn.Conv1d(filters if i == 0 else width, width, 1) for i in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, 4 * filters]."""
        x = self.stem(2 * x - 1)
        for group in range(2):
            y = x
            for block in self.blocks[3 * group : 3 * group + 3]:
                y = block(y)
            x = torch.relu(y + self.shortcuts[group](x))
        return x.mean(dim=2)
