"""REAN: a bounded residual that suppresses identity, sex and age and leaves the diagnosis.

Source: Ki et al., arXiv:2607.06037, section III: x_hat = x + tanh(delta(x)) * bound (eq. 3) and
L = w_u CE_diagnosis - w_p sum_a CE_a + w_prd PRD + w_l1 |x_hat - x| (eq. 2). The paper leaves
three things open; here PRD enters as a ratio, the mean not removed, and L1 is a mean over samples,
so that no weight depends on the window length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.config import Rean
from common.training import allowed_loss, masked_loss, predict


def apply_residual(delta: Tensor, x: Tensor, bound: float) -> Tensor:
    """x + tanh(delta) * bound, same shape as x."""
    return x + torch.tanh(delta) * bound


def prd(x: Tensor, released: Tensor) -> Tensor:
    """Percent root-mean-square difference of each window, (B,); finite gradient at equality.

    Plain definition: 100 |x - x_hat| / |x|, the mean not removed.
    """
    change = (x - released).flatten(1).square().sum(1)
    # The square root has an infinite slope at 0.
    return 100 * torch.sqrt((change + 1e-8) / (x.flatten(1).square().sum(1) + 1e-8))


@dataclass(frozen=True)
class Frozen:
    """The training signal: four networks that nothing updates any more."""

    diagnosis: nn.Module
    identity: nn.Module
    sex: nn.Module
    age: nn.Module

    def freeze(self) -> Frozen:
        """Evaluation mode, no gradients for the weights."""
        for network in (self.diagnosis, self.identity, self.sex, self.age):
            network.eval().requires_grad_(False)
        return self


def rean_loss(network: nn.Module, batch: dict[str, Tensor], frozen: Frozen, rean: Rean) -> Tensor:
    """Loss of each window, (B,). Unknown attributes (-1) take no part."""
    x = batch["x"]  # (B, leads, L)
    released = apply_residual(network(x), x, rean.bound)
    useful = allowed_loss(frozen.diagnosis(released), batch["allowed"])
    leaked = torch.zeros_like(useful)
    for name in ("identity", "sex", "age"):
        loss = masked_loss(getattr(frozen, name)(released), batch[name])
        leaked = leaked + (loss.clamp(max=rean.ceiling) if rean.ceiling else loss)
    l1 = (released - x).abs().flatten(1).mean(1)
    out: Tensor = (rean.utility * useful - rean.privacy * leaked
                   + rean.prd * prd(x, released) / 100 + rean.l1 * l1)
    return out


class ReanAnonymizer:
    """A trained REAN as an Anonymizer: windows in, windows of the same shape out."""

    name = "rean"
    stochastic = False

    def __init__(self, network: nn.Module, bound: float) -> None:
        self.network, self.bound = network, bound

    def anonymize(self, windows: NDArray[np.float32]) -> NDArray[np.float32]:
        """[n, leads, L] in [0, 1] -> the same shape; values may leave [0, 1] by `bound`."""
        delta = predict(self.network, windows)
        x = torch.from_numpy(np.array(windows))
        return apply_residual(delta, x, self.bound).numpy()
