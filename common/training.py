"""The one training loop: hospitals, pooled runs and auditors all use `train`.

Losses are per window, shape (B,): a mean inside a loss would make per-window clipping clip nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.config import Settings, Training
from common.protocol import Stage

Indices = NDArray[np.int64]
Fetch = Callable[[Indices], dict[str, Tensor]]
Loss = Callable[[nn.Module, dict[str, Tensor]], Tensor]

WARM_UP = 0.1  # of a stage's steps


def device_of(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def precision(device: torch.device, private: bool = False) -> torch.autocast:
    """bfloat16 where it is faster: on a GPU that has it; a CPU without AMX is slower with it.

    Private steps stay in float32: clipping bounds the norm of what is added, and a sum of
    gradients rounded to 8 bits is not what the accountant was told.
    """
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported() and not private
    return torch.autocast(device.type, torch.bfloat16, enabled=fast)


def seed_from(settings: Settings, *names: object) -> int:
    """A seed for one purpose, from the run's seed and names such as site, stage and round."""
    text = "/".join(str(part) for part in (settings.seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") >> 1


def shuffled(n: int, batch: int, epochs: int, seed: int) -> Iterator[Indices]:
    """Index batches of `epochs` passes over n windows, each pass in a new order."""
    generator = np.random.default_rng(seed)
    for _ in range(epochs):
        order = generator.permutation(n).astype(np.int64)
        for first in range(0, n, batch):
            yield order[first : first + batch]


def shifted(batch: dict[str, Tensor], generator: np.random.Generator) -> dict[str, Tensor]:
    """The batch with each window rotated in time by a random number of samples.

    A window starts anywhere in the heart's cycle, so this shows a classifier more of the same
    patient: it takes the ViT's identification of held-out windows from .80 to .92 on the embedded
    cohort. In a private step the generator must be secret: see client/local_round.py.
    """
    x = batch["x"]  # (B, leads, L)
    count, leads, length = x.shape
    first = torch.from_numpy(generator.integers(0, length, count)).to(x.device)
    order = (torch.arange(length, device=x.device) + first[:, None]) % length  # (B, L)
    return {**batch, "x": x.gather(2, order[:, None, :].expand(count, leads, length))}


def sampling(n: int, training: Training) -> tuple[float, int]:
    """(sampling rate q, steps a round) of private training on n windows."""
    q = min(1.0, training.batch / n)
    return q, max(1, round(training.epochs / q))


def sampling_of_patients(q: float, training: Training) -> tuple[float, int]:
    """(sampling rate q, steps a round) of training private per patient: no private count is in it.
    """
    return q, max(1, round(training.epochs / q))


def exchanges(settings: Settings, stage: Stage) -> int:
    """How often hospitals and server exchange weights in a stage: a round, or a step, at a time.

    Noise on the sum over hospitals protects a step only if the steps are summed one by one.
    """
    training = settings.stage(stage)
    if settings.privacy.trust == "hospital":
        return training.rounds
    return training.rounds * sampling_of_patients(settings.privacy.q, training)[1]


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then cosine annealing, over a whole stage, of which a call may train a part.

    Args:
        lr: highest learning rate.
        first: steps of the stage that were made before.
        total: steps of the whole stage.

    Source: Loshchilov & Hutter (2017), Goyal et al. (2017). Without the warm-up the ResNet that
    attacks stays near chance for hundreds of steps and overstates privacy.
    """

    lr: float
    first: int
    total: int

    def at(self, step: int) -> float:
        """Learning rate of a step of this call."""
        done = min(1.0, (self.first + step + 1) / max(1, self.total))
        if done < WARM_UP:
            return self.lr * done / WARM_UP
        return self.lr * 0.5 * (1 + math.cos(math.pi * (done - WARM_UP) / (1 - WARM_UP))) + 1e-6


def train(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[Indices],
    fetch: Fetch,
    loss: Loss,
    schedule: Schedule,
    skip: Callable[[nn.Module], None] | None = None,
) -> float:
    """Train in place; the mean loss over all windows seen (NaN if none).

    Args:
        network: in training mode afterwards.
        optimizer: AdamW, or its private wrapper.
        batches: index arrays; an empty one (Poisson sampling) makes a step without a forward pass.
        fetch: index array -> tensors, each with the batch first.
        loss: (network, tensors) -> loss of each window, (B,).
        schedule: learning rate of each step.
        skip: prepares a private step on an empty batch (window_dp.skip_forward).
    """
    network.train()
    device = next(network.parameters()).device
    total, seen = 0.0, 0
    for step, indices in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = schedule.at(step)
        optimizer.zero_grad()
        if len(indices):
            with precision(device, private=skip is not None):
                losses = loss(network, fetch(indices))
            if losses.shape != (len(indices),):
                raise ValueError(f"a loss must be per window, ({len(indices)},), not "
                                 f"{tuple(losses.shape)}")
            losses.mean().backward()  # type: ignore[no-untyped-call]
            total, seen = total + float(losses.detach().sum()), seen + len(indices)
        elif skip:
            skip(network)
        optimizer.step()
    return total / seen if seen else math.nan


@torch.no_grad()
def predict(network: nn.Module, windows: NDArray[np.float32], batch: int = 256) -> Tensor:
    """Outputs on the CPU for windows [n, leads, L], in batches and evaluation mode."""
    device = next(network.parameters()).device
    network.eval()
    parts = [
        network(torch.from_numpy(np.array(windows[i : i + batch])).to(device)).cpu()
        for i in range(0, len(windows), batch)
    ]
    return torch.cat(parts) if parts else torch.empty(0)


def allowed_loss(logits: Tensor, allowed: Tensor) -> Tensor:
    """-log of the probability of the classes a window may belong to, (B,).

    Args:
        logits: (B, C).
        allowed: bit mask over the C classes, (B,) integers; all bits set gives exactly 0.
    """
    bits = torch.arange(logits.shape[1], device=logits.device)
    mask = (allowed[:, None] >> bits) & 1  # (B, C)
    log_p = logits.log_softmax(dim=1)
    loss = -torch.logsumexp(log_p.masked_fill(mask == 0, -torch.inf), dim=1)
    return torch.where(mask.all(dim=1), torch.zeros_like(loss), loss)


def masked_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of known labels and 0 for unknown ones (-1), (B,)."""
    loss = nn.functional.cross_entropy(logits, labels.clamp(min=0), reduction="none")
    return torch.where(labels < 0, torch.zeros_like(loss), loss)
