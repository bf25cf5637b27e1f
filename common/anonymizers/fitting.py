"""Fitting a network of an anonymizer, and releasing by one that draws."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor, nn

from common.anonymizers.contract import Effort, Floats, Labelled
from common.training import Schedule, predict, shuffled, train

Batch = dict[str, Tensor]


def fit_network(network: nn.Module, loss: Callable[[nn.Module, Batch], Tensor], data: Labelled,
                effort: Effort, lr: float, weight_decay: float = 1e-4) -> float:
    """Train in place by AdamW with warm-up and cosine annealing; the mean loss.

    Args:
        network: moved to the effort's device.
        loss: (network, batch of `Labelled.batch`) -> loss of each window, (B,).
        data: training windows.
        effort: how many steps of how many windows.
        lr: highest learning rate.
        weight_decay: of AdamW.
    """
    network.to(effort.device)
    parameters = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=weight_decay)
    passes = -(-effort.steps * effort.batch // max(1, len(data)))
    batches = islice(shuffled(len(data), effort.batch, passes + 1, effort.seed), effort.steps)
    torch.manual_seed(effort.seed)
    return train(network, optimizer, batches, lambda i: data.batch(i, effort.device), loss,
                 Schedule(lr, 0, effort.steps))


def drawn_release(network: nn.Module, windows: Floats, seed: int) -> Floats:
    """Windows [n, leads, L] through a network that draws: the same by seed, and torch's own
    randomness is as before.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return predict(network, windows).numpy()
