"""PP-VAE: a variational autoencoder whose latent is taught to forget sex and age.

Source: Shishir, Harvey, Gupta, Noheria & Shomaji, "AI-enabled privacy-preserving cardiac
diagnostics via electrocardiograms", Scientific Reports (2026), as a baseline of REAN
(arXiv:2607.06037, section IV-A). Only the abstract and REAN's account of it could be read. Kept:
a variational autoencoder with two branches, an adversarial one against demographics (sex and age;
race is not recorded here) and one that keeps a diagnosis in (there a low ejection fraction, here
the arrhythmia). Left open by what could be read, and chosen here:

- It encodes a representative beat. Here the latent is a sequence over the whole window, so that
  the release has the window's shape and needs no annotated beat.
- The branches read the sampled latent; the adversary reaches the encoder by gradient reversal
  (Ganin & Lempitsky, ICML 2015), which makes one loss of the two players.
- Reconstruction counts the share of the window's variance that is lost and KL the nats of one
  latent variable, so that no weight depends on the window's length or amplitude.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from common.anonymizers.contract import Effort, Floats, Frozen, Labelled, Range
from common.anonymizers.fitting import Batch, drawn_release, fit_network
from common.models.resnet1d import group_norm
from common.protocol import AGE_BANDS, ARRHYTHMIA_CLASSES, SEXES
from common.training import allowed_loss, masked_loss

WIDTHS = (16, 32, 32, 32)  # channels after each halving of the rate
LATENT = 8  # variables for each 16 samples
UTILITY = 0.1  # weight of the branch that keeps the diagnosis


def _conv(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 7, stride, 3, bias=False), group_norm(outputs), nn.SiLU())


def _branch(classes: int) -> nn.Sequential:
    """Latent [B, LATENT, T] -> logits [B, classes]."""
    return nn.Sequential(_conv(LATENT, 32), _conv(32, 32), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                         nn.Linear(32, classes))


class Vae(nn.Module):
    """[B, leads, L] in [0, 1] -> reconstruction from a drawn latent, [B, leads, L] in (0, 1)."""

    def __init__(self, leads: int) -> None:
        super().__init__()
        inputs = (leads, *WIDTHS[:-1])
        self.encoder = nn.Sequential(
            *(_conv(a, b, stride=2) for a, b in zip(inputs, WIDTHS, strict=True)),
            nn.Conv1d(WIDTHS[-1], 2 * LATENT, 1))
        outputs = (*WIDTHS[-2::-1], WIDTHS[0])
        self.decoder = nn.Sequential(
            _conv(LATENT, WIDTHS[-1]),
            *(nn.Sequential(nn.Upsample(scale_factor=2), _conv(a, b))
              for a, b in zip(WIDTHS[::-1], outputs, strict=True)),
            nn.Conv1d(WIDTHS[0], leads, 7, 1, 3))
        self.sex, self.age = _branch(len(SEXES)), _branch(len(AGE_BANDS))
        self.diagnosis = _branch(len(ARRHYTHMIA_CLASSES))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, leads, L] -> mean and log variance of the latent, [B, LATENT, ceil(L / 16)] each."""
        mean, log_variance = self.encoder(2 * x - 1).chunk(2, dim=1)
        return mean, log_variance.clamp(-10, 10)

    def decode(self, latent: Tensor, length: int) -> Tensor:
        """[B, LATENT, T] -> [B, leads, length]."""
        return torch.sigmoid(self.decoder(latent)[..., :length])

    def forward(self, x: Tensor) -> Tensor:
        """[B, leads, L] -> [B, leads, L]."""
        return self.decode(drawn(*self.encode(x)), x.shape[2])


def drawn(mean: Tensor, log_variance: Tensor) -> Tensor:
    """A sample of the normal distribution, of the shape of both; one seed serves all devices."""
    noise = torch.randn(mean.shape).to(mean.device)
    return mean + torch.exp(0.5 * log_variance) * noise


def reversed_gradient(x: Tensor, weight: float) -> Tensor:
    """x, whose gradient comes back times -`weight`."""
    return (1 + weight) * x.detach() - weight * x


def lost_variance(x: Tensor, released: Tensor) -> Tensor:
    """Share of each window's variance that the release does not explain, (B,); a flat one has 1."""
    lost = (x - released).square().mean(2)  # (B, leads)
    return (lost / (x.var(2, correction=0) + 1e-4)).mean(1)


def vae_loss(vae: Vae, batch: Batch, beta: float, privacy: float) -> Tensor:
    """Loss of each window, (B,): the branches learn at full weight whatever `privacy` is."""
    x = batch["x"]  # (B, leads, L)
    mean, log_variance = vae.encode(x)
    latent = drawn(mean, log_variance)  # (B, LATENT, T)
    divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
    seen = reversed_gradient(latent, privacy)
    leaked = masked_loss(vae.sex(seen), batch["sex"]) + masked_loss(vae.age(seen), batch["age"])
    useful = allowed_loss(vae.diagnosis(latent), batch["allowed"])
    return (lost_variance(x, vae.decode(latent, x.shape[2])) + beta * divergence.flatten(1).mean(1)
            + leaked + UTILITY * useful)


class PPVae:
    """PP-VAE as an Anonymizer; `network` is the `Vae` that `fit` made.

    Args:
        beta: weight of the KL divergence.
        privacy: weight of the adversarial branch in the encoder's gradient.
        lr: highest learning rate of `fit`.
    """

    name = "pp_vae"
    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {
        "beta": Range(0.003, 1.0, log=True), "privacy": Range(0.001, 1.0, log=True)}
    network: Vae

    def __init__(self, beta: float = 0.1, privacy: float = 0.1, lr: float = 3e-3) -> None:
        self.beta, self.privacy, self.lr = beta, privacy, lr

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Train from scratch; the frozen networks take no part."""
        torch.manual_seed(effort.seed)
        vae = self.network = Vae(train.x.shape[1])

        def loss(network: nn.Module, batch: Batch) -> Tensor:
            return vae_loss(vae, batch, self.beta, self.privacy)

        fit_network(vae, loss, train, effort, self.lr)

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] -> the same shape, decoded from a latent that is drawn anew.

        Raises:
            AttributeError: before `fit`.
        """
        return drawn_release(self.network, data.x, seed)
