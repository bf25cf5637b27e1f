"""The 1-D U-Net that predicts REAN's residual.

Source: REAN paper, section III-B: encoder-decoder, strided convolutions, skips, base width 32, four
resolution levels. Upsampling is nearest-neighbour plus convolution, which leaves no checkerboard.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from common.models.resnet1d import group_norm


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 7, stride, 3, bias=False), group_norm(outputs), nn.SiLU()
    )


class UNet1D(nn.Module):
    """[B, leads, L] in [0, 1] -> residual before tanh, [B, leads, L].

    It does not start at zero: where classifiers are sure of a window their loss is flat, the
    distortion terms are not, and a residual of zero never leaves.
    """

    def __init__(self, width: int, levels: int, leads: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(levels)]
        self.stem = nn.Sequential(_conv(leads, width), _conv(width, width))
        self.down = nn.ModuleList(
            nn.Sequential(_conv(a, b, stride=2), _conv(b, b))
            for a, b in zip(widths, widths[1:], strict=False)
        )
        self.up = nn.ModuleList(
            _conv(a + b, b) for a, b in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.out = nn.Conv1d(width, leads, 7, padding=3)

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, leads, L]."""
        skips = [self.stem(2 * x - 1)]
        for down in self.down:
            skips.append(down(skips[-1]))
        y = skips.pop()
        for up in self.up:
            y = nn.functional.interpolate(y, scale_factor=2.0)
            y = up(torch.cat([y, skips.pop()], dim=1))
        out: Tensor = self.out(y)
        return out
