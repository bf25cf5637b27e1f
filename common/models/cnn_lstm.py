"""CNN-LSTM: one of the attackers' architectures; convolutions see the waves, the LSTM their order.

Source: Oh et al. (2018), Computers in Biology and Medicine: three convolutions, each with
max-pooling, then an LSTM. Here with BatchNorm, in both directions, and averaged over time rather
than read at the last step, as a window of 8 s has no beat that is the last.
"""

from __future__ import annotations

from torch import Tensor, nn


class CNNLSTM(nn.Module):
    """[B, leads, L] in [0, 1] -> features [B, 8 * width]; in evaluation mode window by window."""

    def __init__(self, width: int, leads: int) -> None:
        super().__init__()
        self.features = 8 * width
        layers: list[nn.Module] = []
        inputs = leads
        # The first strides, so that the LSTM takes L / 16 steps.
        for outputs, kernel, stride in ((width, 15, 2), (2 * width, 7, 1), (4 * width, 7, 1)):
            layers += [nn.Conv1d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
                       nn.BatchNorm1d(outputs), nn.ReLU(), nn.MaxPool1d(2)]
            inputs = outputs
        self.convolutions = nn.Sequential(*layers)
        self.lstm = nn.LSTM(4 * width, 4 * width, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, 8 * width]."""
        y = self.convolutions(2 * x - 1)  # (B, 4 * width, L / 16)
        out: Tensor = self.lstm(y.transpose(1, 2))[0].mean(dim=1)
        return out
