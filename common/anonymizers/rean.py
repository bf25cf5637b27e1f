"""REAN: a bounded residual that suppresses identity, sex and age and leaves the diagnosis.

Source: Ki et al., arXiv:2607.06037, section III: x_hat = x + tanh(delta(x)) * bound (eq. 3) and
L = w_u CE_diagnosis - w_p sum_a CE_a + w_prd PRD + w_l1 |x_hat - x| (eq. 2). The paper leaves
three things open; here PRD enters as a ratio, the mean not removed, and L1 is a mean over samples,
so that no weight depends on the window length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range
from common.anonymizers.fitting import fit_network
from common.config import Rean
from common.models.verifier import verification_logits
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


def hidden(logits: Tensor, labels: Tensor, rean: Rean) -> Tensor:
    """How well an attribute is hidden from a frozen attacker, in nats; higher is better, (B,).

    `away`, the paper's: the attacker's cross-entropy. It drives a binary attribute below chance,
    which whoever flips the answer reads again. `uniform`: minus the divergence of the answer from
    ignorance. `decoy`: minus the cross-entropy with another person's label, or, for sex, with a
    coin's.

    Args:
        logits: (B, C).
        labels: (B,), -1 where unknown, which counts 0 but for `uniform`, which needs no label.
        rean: its `target` and `ceiling`.
    """
    if rean.target == "uniform":
        return logits.log_softmax(1).mean(1) + math.log(logits.shape[1])
    if rean.target == "decoy":
        classes = logits.shape[1]
        shift = torch.randint(0 if classes == 2 else 1, classes, labels.shape, device=labels.device)
        other = torch.where(labels < 0, labels, (labels + shift) % classes)
        return -masked_loss(logits, other)
    loss = masked_loss(logits, labels)
    return loss.clamp(max=rean.ceiling) if rean.ceiling else loss


def rean_loss(network: nn.Module, batch: dict[str, Tensor], frozen: Frozen, rean: Rean) -> Tensor:
    """Loss of each window, (B,)."""
    x = batch["x"]  # (B, leads, L)
    released = apply_residual(network(x), x, rean.bound)
    useful = allowed_loss(frozen.diagnosis(released), batch["allowed"])
    private = torch.zeros_like(useful)
    private = private + hidden(*_identified(x, released, batch, frozen), rean)
    for name in ("sex", "age"):
        private = private + hidden(getattr(frozen, name)(released), batch[name], rean)
    l1 = (released - x).abs().flatten(1).mean(1)
    out: Tensor = (rean.utility * useful - rean.privacy * private
                   + rean.prd * prd(x, released) / 100 + rean.l1 * l1)
    return out


def _identified(x: Tensor, released: Tensor, batch: dict[str, Tensor],
                frozen: Frozen) -> tuple[Tensor, Tensor]:
    """Logits of who it is, and the right answers: of the patients, or own window or public ones."""
    answer = frozen.identity(released)
    if frozen.public is None:
        return answer, batch["identity"]
    with torch.no_grad():
        own = frozen.identity(x)
    right = torch.zeros(len(x), dtype=torch.long, device=x.device)
    return verification_logits(answer, own, frozen.public), right


def at_share(rean: Rean, share: float) -> Rean:
    """REAN's settings with a share of the distortion weights, which grow from 0 in training.

    With them from the start, the residual falls to zero before it has found what hides a patient.
    """
    return replace(rean, prd=share * rean.prd, l1=share * rean.l1)


class ReanAnonymizer:
    """REAN as an Anonymizer.

    Args:
        network: the U-Net, trained or to be trained.
        settings: bound and weights.
        lr: highest learning rate of `fit`.
    """

    name = "rean"
    stochastic = False
    # The paper searches its four weights and states (1.51, 0.153, 0.323, 1.46).
    space: ClassVar[Mapping[str, Range]] = {
        "utility": Range(0.2, 10.0, log=True), "privacy": Range(0.02, 2.0, log=True),
        "prd": Range(0.1, 50.0, log=True), "l1": Range(0.1, 10.0, log=True)}

    def __init__(self, network: nn.Module, settings: Rean, lr: float = 3e-3) -> None:
        self.network, self.settings, self.lr = network, settings, lr

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Train the U-Net against the frozen networks."""
        frozen.to(effort.device)
        step = 0

        def loss(network: nn.Module, batch: dict[str, Tensor]) -> Tensor:
            nonlocal step
            rean, step = at_share(self.settings, step / max(1, effort.steps - 1)), step + 1
            return rean_loss(network, batch, frozen, rean)

        fit_network(self.network, loss, train, effort, self.lr)

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] in [0, 1] -> the same shape; values may leave [0, 1] by `bound`."""
        return self.release(data.x)

    def release(self, windows: NDArray[np.float32]) -> NDArray[np.float32]:
        """`anonymize` for bare windows [n, leads, L]: REAN needs no more."""
        delta = predict(self.network, windows)
        x = torch.from_numpy(np.array(windows))
        return apply_residual(delta, x, self.settings.bound).numpy()
