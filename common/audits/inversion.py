"""A patient's ECG out of a model's weights: the signal that the model calls theirs.

Source: Fredrikson et al. (2015) descend a classifier's loss with respect to its input. Three priors
fit it to ECG: signals have the spectrum of other people's, and little total variation; a window
spans [0, 1], as its preparation makes it; what is found must convince at any rotation in time, or,
where one beat is sought, in any regular rhythm (expectation over transformation: Athalye et al.,
2018), since a pattern that convinces at one place alone is an artefact of the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor], Tensor]  # windows (B, leads, L) -> loss of each, (B,)
Draw = Callable[[Tensor], Tensor]  # signals (B, leads, T) -> windows (B, leads, L) that hold them

TAPER = 0.1  # of a beat's length, faded to 0 at either end


@dataclass(frozen=True)
class Prior:
    """What signals look like in general; a signal is a mean and coloured white noise.

    Args:
        mean: (n, leads, T), or broadcast to it.
        gain: of each frequency of white noise, (n, leads, T // 2 + 1).
    """

    mean: Tensor
    gain: Tensor

    def signal(self, z: Tensor) -> Tensor:
        """White noise (n, leads, T) -> signals of that shape; 0 gives the mean."""
        coloured: Tensor = torch.fft.irfft(torch.fft.rfft(z) * self.gain, n=z.shape[-1])
        return self.mean + coloured


def prior_of(examples: Tensor, aligned: bool) -> Prior:
    """From examples of other people.

    Args:
        examples: (n, leads, T).
        aligned: they begin at the same moment of a beat; else, as windows do, anywhere, and their
            mean has no shape.

    Returns:
        A prior of one row.
    """
    mean = examples.mean(0, keepdim=True)  # (1, leads, T)
    if not aligned:
        mean = mean.mean(2, keepdim=True).expand_as(mean).clone()
    power = torch.fft.rfft(examples - mean).abs().square().mean(0, keepdim=True)
    return Prior(mean, (power / examples.shape[2]).sqrt())  # (1, leads, T // 2 + 1)


def stacked(priors: list[Prior]) -> Prior:
    """Priors of one row each, one for each target."""
    return Prior(torch.cat([p.mean for p in priors]), torch.cat([p.gain for p in priors]))


def margin(logits: Tensor, label: Tensor) -> Tensor:
    """How far the other classes are ahead of a label, (B, C) -> (B,).

    Cross-entropy stops pulling as soon as the class is sure, long before a window looks like it
    (Yuan et al., 2023).
    """
    own = nn.functional.one_hot(label, logits.shape[1]).bool()
    others = logits.masked_fill(own, -torch.inf).logsumexp(1)
    lead: Tensor = others - logits[own]
    return lead


def unit(x: Tensor) -> Tensor:
    """Each lead stretched to span [0, 1], as every prepared window does, (..., L)."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low).clamp(min=1e-6)


def variation(x: Tensor) -> Tensor:
    """Mean absolute step between neighbours, (B, ..., L) -> (B,)."""
    return x.diff(dim=-1).abs().flatten(1).mean(1)


def descend(loss: Loss, z: Tensor, steps: int, lr: float) -> Tensor:
    """Adam from z with a cosine decay of its rate (Kingma & Ba, 2015); rows are independent."""
    z = z.clone().requires_grad_()
    optimizer = torch.optim.Adam([z], lr)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = lr * 0.5 * (1 + math.cos(math.pi * step / steps))
        [z.grad] = torch.autograd.grad(loss(z).sum(), [z])
        optimizer.step()
    return z.detach()


@dataclass(frozen=True)
class Effort:
    """How hard an inversion tries.

    Args:
        steps, lr: of Adam.
        restarts: random starts for each target, of which the model's own answer picks one.
        norm: weight of the white noise's mean square.
        variation: weight of the windows' total variation.
    """

    steps: int = 200
    lr: float = 0.1
    restarts: int = 2
    norm: float = 0.01
    variation: float = 1.0


def invert(loss: Callable[[Tensor, Tensor], Tensor], draw: Draw, prior: Prior, effort: Effort,
           generator: torch.Generator) -> Tensor:
    """For each row of the prior, a signal of low loss.

    Args:
        loss: (windows (B, leads, L), the target of each (B,)) -> loss of each, (B,).
        draw: signals to random windows that hold them: `rotated`, or beats in a rhythm.
        prior: a row for each target.
        effort: how hard to try.
        generator: of the starts, on the CPU.

    Returns:
        Signals (targets, leads, T).
    """
    targets, leads, length = len(prior.gain), prior.gain.shape[1], prior.mean.shape[-1]
    many = stacked([prior] * effort.restarts)
    which = torch.arange(targets, device=prior.gain.device).repeat(effort.restarts)
    start = torch.randn(len(which), leads, length, generator=generator).to(which.device)

    def total(z: Tensor) -> Tensor:
        x = draw(many.signal(z))
        plain: Tensor = (loss(x, which) + effort.norm * z.square().flatten(1).mean(1)
                         + effort.variation * variation(x))
        return plain

    z = descend(total, 0.3 * start, effort.steps, effort.lr)
    with torch.no_grad():
        signal = many.signal(z)
        judged = torch.stack([loss(draw(signal), which) for _ in range(8)]).mean(0)
        best = judged.reshape(effort.restarts, targets).argmin(0)
        found: Tensor = signal.reshape(effort.restarts, targets, leads, length)[
            best, torch.arange(targets, device=best.device)]
    return found


def rotated(x: Tensor, generator: torch.Generator) -> Tensor:
    """Windows in [0, 1], all rotated by the same random number of samples, (B, leads, L)."""
    by = int(torch.randint(x.shape[-1], (1,), generator=generator))
    return torch.roll(unit(x), by, -1)


def in_rhythm(beat: Tensor, onsets: Tensor, length: int) -> Tensor:
    """Windows in [0, 1] that hold one beat again and again.

    Args:
        beat: (B, leads, T), faded to 0 at either end here.
        onsets: samples at which a beat begins, from -T on, integers [beats].
        length: of a window, L.
    """
    samples = beat.shape[-1]
    ramp = torch.linspace(0, 1, max(2, round(TAPER * samples)), device=beat.device)
    fade = torch.ones(samples, device=beat.device)
    fade[: len(ramp)], fade[-len(ramp) :] = ramp, ramp.flip(0)
    train = torch.zeros(samples + length, device=beat.device)
    inside = onsets[(onsets >= -samples) & (onsets < length)]
    train[inside + samples] = 1.0
    size = len(train)  # what wraps round lands before the window
    full: Tensor = torch.fft.irfft(torch.fft.rfft(train) * torch.fft.rfft(beat * fade, size), size)
    return unit(full[..., samples:])


def random_onsets(rate: float, seconds: float, generator: torch.Generator) -> Tensor:
    """Onsets (samples) of the beats of a window at a regular rhythm of 55 to 110 a minute."""
    a, b = torch.rand(2, generator=generator).tolist()
    rr = 60 / (55 + 55 * a)
    beats: Tensor = (torch.arange(-3, math.ceil(seconds / rr) + 1) + b) * rr * rate
    return beats.round().long()
