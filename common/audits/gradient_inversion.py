"""Windows out of one update: those whose gradient is the one that a hospital sent.

Source: Zhu et al. (2019); with the cosine distance and total variation of Geiping et al. (2020),
and labels read from the gradient of the last bias (Zhao et al., 2020; counts as Wainakh et al.,
2021). One step of one batch is what it can undo. A round of many AdamW steps shows the server their
sum alone: that is harder, and not modelled here.

Many updates are attacked side by side, [T] of B windows each: a small network spends its time
between operations, not in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from common.audits.inversion import Prior, descend, unit, variation
from common.errors import InputError

_AGAIN = 50  # steps after which the clipping of guessed windows is measured again


@dataclass(frozen=True)
class Effort:
    """How hard a gradient inversion tries; fields as of `inversion.Effort`."""

    steps: int = 150
    lr: float = 0.1
    restarts: int = 1
    norm: float = 1e-4
    variation: float = 1e-3


def updates(network: nn.Module, x: Tensor, label: Tensor,
            weight: Tensor | None = None) -> list[Tensor]:
    """Gradients of the mean loss of T batches: what one step on each reveals.

    Args:
        network: [B, leads, L] -> logits, in evaluation mode and without batch statistics.
        x: (T, B, leads, L); the gradients can be differentiated with respect to it.
        label: class of each window, (T, B).
        weight: of each window's loss, (T, B); default: 1.

    Returns:
        One tensor a parameter, (T, ...).
    """
    weight = torch.ones(label.shape, device=x.device) if weight is None else weight

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        logits = functional_call(network, parameters, (x,))
        return (nn.functional.cross_entropy(logits, y, reduction="none") * w).mean()

    parameters = {name: p.detach() for name, p in network.named_parameters()}
    found: dict[str, Tensor] = vmap(grad(loss), (None, 0, 0, 0))(parameters, x, label, weight)
    return list(found.values())


def private_updates(network: nn.Module, x: Tensor, label: Tensor, clip: float, sigma: float,
                    generator: torch.Generator) -> list[Tensor]:
    """The same under DP-SGD per window, over the realised batch instead of the expected one.

    The noise is seeded, unlike a hospital's, so that an audit repeats.

    Args:
        network, x, label: as for `updates`.
        clip: largest norm of one window's gradient.
        sigma: standard deviation of the noise on the sum over `clip`.
        generator: of the noise, on the CPU.

    Source: Abadi et al. (2016).
    """
    clipped = updates(network, x, label, clipping(network, x, label, clip))
    scale = sigma * clip / x.shape[1]
    return [part + (scale * torch.randn(part.shape, generator=generator)).to(part.device)
            for part in clipped]


def clipping(network: nn.Module, x: Tensor, label: Tensor, clip: float) -> Tensor:
    """Factor that brings each window's gradient to norm `clip` at most, (T, B)."""
    norms = lengths(updates(network, x.flatten(0, 1)[:, None], label.flatten()[:, None]))
    return (clip / norms.clamp(min=1e-12)).clamp(max=1.0).reshape(label.shape)


def lengths(gradient: Sequence[Tensor]) -> Tensor:
    """Norms over all parameters, (T,)."""
    return torch.stack([part.flatten(1).square().sum(1) for part in gradient]).sum(0).sqrt()


def distances(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    """One less the cosines between pairs of gradients, (T,); 1 where one of them is 0."""
    products = torch.stack([(p * q).flatten(1).sum(1) for p, q in zip(a, b, strict=True)]).sum(0)
    return 1 - products / (lengths(a) * lengths(b)).clamp(min=1e-12)


def labels_of(bias: Tensor, probability: Tensor, batch: int) -> Tensor:
    """Classes of a batch, in rising order, (batch,).

    The gradient of the last bias is the mean probability of each class less its share of labels;
    for one window, its only negative entry is the label, whatever the probabilities.

    Args:
        bias: gradient of the last layer's bias, (C,).
        probability: what the network gives each class on windows in general, (C,).
        batch: windows.

    Raises:
        InputError: no window.
    """
    if batch < 1:
        raise InputError(f"batch is {batch}; it must be at least 1")
    if batch == 1:
        return bias.argmin()[None]
    wanted = batch * (probability - bias)
    counts = torch.zeros_like(wanted)
    for _ in range(batch):
        counts[(wanted - counts).argmax()] += 1
    return torch.repeat_interleave(torch.arange(len(bias), device=bias.device), counts.long())


def reconstruct(network: nn.Module, seen: Sequence[Tensor], label: Tensor, prior: Prior,
                effort: Effort, generator: torch.Generator,
                clip: float | None = None) -> Tensor:
    """Windows in [0, 1] whose gradients point where those that were seen do.

    Args:
        network: with the weights that the server had sent.
        seen: the updates, each in any scale, (T, ...).
        label: classes of their windows, (T, B).
        prior: of windows, T rows.
        effort: how hard to try.
        generator: of the starts, on the CPU.
        clip: the windows' gradients were clipped to this norm; None: not at all.

    Returns:
        (T, B, leads, L), each batch in no order that is known.
    """
    attempts = [_attempt(network, seen, label, prior, effort, generator, clip)
                for _ in range(effort.restarts)]
    apart = torch.stack([a for _, a in attempts])  # (restarts, T)
    windows = torch.stack([x for x, _ in attempts])
    best: Tensor = windows[apart.argmin(0), torch.arange(len(label), device=label.device)]
    return best


def _attempt(network: nn.Module, seen: Sequence[Tensor], label: Tensor, prior: Prior,
             effort: Effort, generator: torch.Generator,
             clip: float | None) -> tuple[Tensor, Tensor]:
    """One start: windows (T, B, leads, L), and how far their gradients stay apart, (T,)."""
    rows, batch = len(label), label.shape[1]
    many = Prior(prior.mean.repeat_interleave(batch, 0), prior.gain.repeat_interleave(batch, 0))
    start = torch.randn(many.mean.shape, generator=generator).to(label.device)
    weight, step = torch.ones(label.shape, device=label.device), 0

    def windows(z: Tensor) -> Tensor:
        return unit(many.signal(z)).reshape(rows, batch, *z.shape[1:])

    def loss(z: Tensor) -> Tensor:
        nonlocal weight, step
        x = windows(z)
        # Only the factors' ratios within a batch matter, and they change slowly.
        if clip and batch > 1 and step % _AGAIN == 0:
            weight = clipping(network, x.detach(), label, clip)
        step += 1
        plain: Tensor = (distances(updates(network, x, label, weight), seen)
                         + effort.norm * z.square().reshape(rows, -1).mean(1)
                         + effort.variation * variation(x))
        return plain

    x = windows(descend(loss, start, effort.steps, effort.lr))
    return x, distances(updates(network, x, label, weight), seen).detach()
