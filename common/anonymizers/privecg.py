"""PrivECG: a generator that redraws an ECG so that a discriminator cannot tell the sex.

Source: Nolin-Lapalme, Avram & Julie, "PrivECG: generating private ECG for end-to-end
anonymization", MLHC (2023, PMLR 219), as a baseline of REAN (arXiv:2607.06037, section IV-A). The
paper's text could not be read; what is kept was learned from the authors' published program:

- a U-Net with noise of standard deviation 0.1 at its bottleneck;
- one discriminator, no separate one for realness: it tells the sex of true windows and is taught to
  answer about 0.5, drawn anew each step, on generated ones, where the generator wants the same;
- the generator's loss: squared error, which weighs 1 at R waves and 100 elsewhere, plus 0.0001
  times the discriminator's cross-entropy with that answer; nothing about arrhythmia or identity;
- Adam's momenta, 0.5 and 0.99.

Chosen here: this project's U-Net and ResNet, smaller and without dropout; 50 ms on either side of
a peak for the R waves, which come to the program as a mask; a learning rate for a shared effort,
where 1e-7 over 500 epochs would move nothing. The program's U-Net ends in a sigmoid and draws the
signal itself; this one adds a change to it, which starts at zero: redrawing costs a PRD of 8.5 %
after 300 steps, which is not the method's doing but the short training's. As the discriminator is
never asked for the sex of a generated window, an adversary who is may still find it: the method is
reproduced, not repaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range
from common.anonymizers.fitting import drawn_release
from common.models.classifier import Classifier
from common.models.resnet1d import ResNet1D
from common.models.unet1d import UNet1D
from common.training import Schedule, shuffled

WIDTH, LEVELS = 4, 4  # of the U-Net; the discriminator has the same width
BETAS = (0.5, 0.99)  # momenta of both optimizers
NOISE = 0.1  # standard deviation at the bottleneck
R_WAVE = 0.05  # s on either side of a peak
ANSWER = (0.5, 0.1)  # mean and standard deviation of the answer wanted on generated windows


class _Noise(nn.Module):
    """Adds noise, when generating too; drawn on the CPU, so that one seed serves all devices."""

    def forward(self, x: Tensor) -> Tensor:
        return x + NOISE * torch.randn(x.shape).to(x.device)


class Generator(nn.Module):
    """[B, leads, L] in [0, 1] -> [B, leads, L], at first the same; 8 divides L."""

    def __init__(self, leads: int) -> None:
        super().__init__()
        self.unet = UNet1D(WIDTH, LEVELS, leads)
        self.unet.down[-1] = nn.Sequential(self.unet.down[-1], _Noise())
        nn.init.zeros_(self.unet.out.weight)
        nn.init.zeros_(self.unet.out.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, leads, L]."""
        return x + torch.tanh(self.unet(x))


def r_waves(data: Labelled) -> NDArray[np.bool_]:
    """Which samples lie within `R_WAVE` of an annotated beat, [n, L]."""
    mask = np.zeros((len(data), data.x.shape[2]), dtype=bool)
    reach = round(R_WAVE * data.rate)
    peak = np.rint(data.beats.time * data.rate).astype(np.int64)
    at = peak[:, None] + np.arange(-reach, reach + 1)  # (beats, 2 reach + 1)
    window = np.repeat(np.arange(len(data)), np.diff(data.beats.first))
    inside = (at >= 0) & (at < mask.shape[1])
    mask[np.broadcast_to(window[:, None], at.shape)[inside], at[inside]] = True
    return mask


def discriminator_loss(discriminator: nn.Module, x: Tensor, released: Tensor, sex: Tensor,
                       answer: float) -> Tensor:
    """The sex of true windows, where it is known, and `answer` on released ones; a mean, ().

    Args:
        discriminator: [B, leads, L] -> logit of the second sex, [B, 1].
        x, released: [B, leads, L].
        sex: (B,), -1 where unknown.
        answer: probability wanted on released windows.
    """
    true, generated = discriminator(x)[:, 0], discriminator(released)[:, 0]
    told = cross_entropy(true, sex.clamp(min=0).float(), reduction="none")
    known = (sex >= 0).float()
    return (known * told + cross_entropy(generated, torch.full_like(generated, answer),
                                         reduction="none")).mean()


def _update(optimizer: torch.optim.Optimizer, loss: Tensor, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.zero_grad()  # of what the other player's loss left, too
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


class PrivEcg:
    """PrivECG as an Anonymizer; `network` is the `Generator` that `fit` made.

    Args:
        privacy: weight of the discriminator's ignorance.
        reconstruction: weight of the squared error away from the R waves, where it is 1.
        lr: highest learning rate of both networks.
    """

    name = "privecg"
    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {
        "privacy": Range(1e-5, 10.0, log=True), "reconstruction": Range(1.0, 1000.0, log=True)}
    network: Generator

    def __init__(self, privacy: float = 1e-4, reconstruction: float = 100.0,
                 lr: float = 3e-3) -> None:
        self.privacy, self.reconstruction, self.lr = privacy, reconstruction, lr

    def generator_loss(self, discriminator: nn.Module, x: Tensor, released: Tensor,
                       peaks: Tensor, answer: float) -> Tensor:
        """A mean, (); x and released [B, leads, L], peaks [B, L] as of `r_waves`."""
        weight = torch.where(peaks, 1.0, self.reconstruction)[:, None]  # (B, 1, L)
        logit = discriminator(released)[:, 0]
        return ((weight * (released - x).square()).mean()
                + self.privacy * cross_entropy(logit, torch.full_like(logit, answer)))

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Update generator and discriminator in turn; the frozen networks take no part.

        All in float32: eight bits of mantissa are fewer than the fidelity asked for.
        """
        torch.manual_seed(effort.seed)
        leads, device = train.x.shape[1], effort.device
        self.network = Generator(leads).to(device)
        discriminator = Classifier(ResNet1D(WIDTH, leads), 1).to(device)
        players = [torch.optim.AdamW(n.parameters(), betas=BETAS, weight_decay=1e-4)
                   for n in (self.network, discriminator)]
        schedule, peaks = Schedule(self.lr, 0, effort.steps), r_waves(train)
        answers = np.random.default_rng(effort.seed).normal(*ANSWER, effort.steps).clip(0, 1)
        passes = -(-effort.steps * effort.batch // max(1, len(train))) + 1
        batches = islice(shuffled(len(train), effort.batch, passes, effort.seed), effort.steps)
        for step, rows in enumerate(batches):
            batch, answer = train.batch(rows, device), float(answers[step])
            x, released = batch["x"], self.network(batch["x"])
            at, lr = torch.from_numpy(peaks[rows]).to(device), schedule.at(step)
            _update(players[0], self.generator_loss(discriminator, x, released, at, answer), lr)
            _update(players[1], discriminator_loss(discriminator, x, released.detach(),
                                                   batch["sex"], answer), lr)

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] -> the same shape, with new noise at the bottleneck.

        Raises:
            AttributeError: before `fit`.
        """
        return drawn_release(self.network, data.x, seed)
