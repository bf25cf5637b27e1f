"""Whose window made this update? The patient whose own windows would have made one most like it.

An update that cannot be turned back into a waveform may still say whose it is: whoever holds clean
windows of candidates computes the gradient of each and takes the nearest, as membership is inferred
from gradients by their cosine (Nasr et al., 2019; Li et al., 2023).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from common.audits.gradient_inversion import updates

_PLACES = 1 << 17  # coordinates of a gradient that are compared, of a larger network a sample
_CHUNK = 32  # gradients at once


def flat(gradient: list[Tensor]) -> Tensor:
    """Of each update one row of length 1, (T, at most 2^17)."""
    whole = torch.cat([part.flatten(1) for part in gradient], dim=1)
    if whole.shape[1] > _PLACES:
        chosen = torch.randperm(whole.shape[1], generator=torch.Generator().manual_seed(0))
        whole = whole[:, chosen[:_PLACES].to(whole.device)]
    return nn.functional.normalize(whole.detach(), dim=1)


def templates(network: nn.Module, x: Tensor, owner: Tensor, owners: Tensor,
              label: int) -> Tensor:
    """Mean direction of the gradients of each owner's windows, (owners, places).

    Args:
        network: as for `updates`.
        x: (n, leads, L).
        owner: of each window, (n,).
        owners: whose templates are wanted.
        label: class that the windows are given.
    """
    y = torch.full((len(x), 1), label, device=x.device)
    rows = torch.cat([flat(updates(network, x[i : i + _CHUNK, None], y[i : i + _CHUNK]))
                      for i in range(0, len(x), _CHUNK)])
    return torch.stack([rows[owner == one].mean(0) for one in owners])


def scores(seen: Tensor, known: Tensor) -> Tensor:
    """Cosine of updates (T, places) with templates (owners, places) beyond what all share.

    Returns:
        (T, owners).
    """
    shared = nn.functional.normalize(known.mean(0), dim=0)

    def beyond(rows: Tensor) -> Tensor:
        return nn.functional.normalize(rows - (rows @ shared)[:, None] * shared, dim=1)

    return beyond(seen) @ beyond(known).T
