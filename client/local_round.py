"""One round of local training: without privacy, with privacy per window, and per patient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from common.config import Privacy, Training
from common.privacy.accounting import Spend
from common.privacy.canaries import Canaries
from common.privacy.noise import GAUSSIAN, poisson_indices
from common.privacy.patient_dp import PatientSum
from common.training import Fetch, Indices, Loss, Schedule, shifted, shuffled, train


@dataclass(frozen=True)
class LocalRound:
    """What a round trains on.

    Args:
        network: trained in place.
        fetch: index array into the n windows -> tensors.
        loss: loss of each window.
        n: usable windows.
        training: of the stage.
        number: of the round in the stage, from 1.
        seed: of everything that is not private.
        shift: rotate windows in time, as classifiers are trained.
    """

    network: nn.Module
    fetch: Fetch
    loss: Loss
    n: int
    training: Training
    number: int
    seed: int
    shift: bool

    def optimizer(self) -> torch.optim.Optimizer:
        """AdamW, new in each round, as federated averaging leaves no state behind."""
        return torch.optim.AdamW(self.network.parameters(), lr=self.training.lr,
                                 weight_decay=self.training.weight_decay)

    def batch(self, generator: np.random.Generator) -> Fetch:
        """Fetch windows, rotated by the generator's shifts where the stage wants them."""
        return lambda i: shifted(self.fetch(i), generator) if self.shift else self.fetch(i)

    def schedule(self, steps: int) -> Schedule:
        """The part of the stage's schedule that this round trains."""
        return Schedule(self.training.lr, (self.number - 1) * steps, self.training.rounds * steps)


def train_plainly(local: LocalRound) -> float:
    """Train without privacy; the mean loss."""
    training = local.training
    torch.manual_seed(local.seed)
    steps = -(-local.n // training.batch) * training.epochs
    batches = shuffled(local.n, training.batch, training.epochs, local.seed)
    return train(local.network, local.optimizer(), batches,
                 local.batch(np.random.default_rng(local.seed + 1)), local.loss,
                 local.schedule(steps))


@dataclass(frozen=True)
class PatientDraws:
    """Who is in a step, and which of his windows.

    Args:
        chosen: (patients, rate) -> indices of those in a step.
        generator: of windows and shifts.
    """

    chosen: Callable[[int, float], Indices]
    generator: np.random.Generator


def secret_draws() -> PatientDraws:
    """Of the operating system: seeded draws would void the amplification by sampling."""
    torch.seed()  # stochastic depth is drawn in secret, too, as in `train_privately`
    return PatientDraws(poisson_indices, np.random.default_rng())


def open_draws(seed: int) -> PatientDraws:
    """The same by seed, without privacy."""
    torch.manual_seed(seed)
    generator = np.random.default_rng(seed)
    return PatientDraws(lambda n, q: np.flatnonzero(generator.random(n) < q), generator)


def train_per_patient(local: LocalRound, patient: Indices, spend: Spend, privacy: Privacy,
                      draws: PatientDraws, canaries: Canaries | None = None) -> float:
    """Train on patients, each with one clipped gradient; the mean loss.

    With noise (DP-SGD per patient) the draws must be secret, and the loss must not leave.

    Args:
        local: the round.
        patient: whose each of the n windows is, [n].
        spend: rate, noise and steps.
        privacy: clip, windows of a patient in a step, and the public number of patients.
        draws: secret or open.
        canaries: who take part beside the patients, and learn from each noisy sum.
    """
    people = [np.flatnonzero(patient == who) for who in np.unique(patient)]
    expected = spend.q * (privacy.cohort or len(people))
    network, optimizer, fetch = local.network.train(), local.optimizer(), local.batch(
        draws.generator)
    schedule, total = local.schedule(spend.steps), PatientSum(
        local.network, privacy.clip, GAUSSIAN[privacy.noise])
    seen: list[float] = []
    for step in range(spend.steps):
        for group in optimizer.param_groups:
            group["lr"] = schedule.at(step)
        for i in draws.chosen(len(people), spend.q):
            rows = draws.generator.permutation(people[i])[: privacy.windows]
            losses = local.loss(network, fetch(rows))  # (W,)
            total.add(losses)
            seen.append(float(losses.detach().mean()))
        if canaries:
            canaries.add(total.total, spend.q, privacy.clip)
        released = total.release(spend.sigma, expected)
        if canaries:
            canaries.see(released, spend.sigma, privacy.clip)
        optimizer.step()
    return float(np.mean(seen)) if seen else float("nan")


def noisy_sum(local: LocalRound, patient: Indices, spend: Spend, share: float, privacy: Privacy,
              draws: PatientDraws) -> dict[str, Tensor]:
    """One step's clipped sum of patients' gradients with this hospital's share of the noise.

    Alone it has only a share of what `spend` says, which the sum over hospitals has.

    Args:
        local: the round; its windows may be none.
        patient: whose each of the n windows is, [n].
        spend: rate, and noise of the sum.
        share: noise added here, over the clip.
        privacy: clip, and windows of a patient in a step.
        draws: secret.
    """
    people = [np.flatnonzero(patient == who) for who in np.unique(patient)]
    network, fetch = local.network.train(), local.batch(draws.generator)
    total = PatientSum(network, privacy.clip, GAUSSIAN[privacy.noise])
    for i in draws.chosen(len(people), spend.q):
        rows = draws.generator.permutation(people[i])[: privacy.windows]
        total.add(local.loss(network, fetch(rows)))
    total.release(share, 1.0)
    return {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def train_privately(local: LocalRound, spend: Spend, privacy: Privacy) -> float:
    """Train with DP-SGD per window on Poisson batches; the mean loss, which must not leave."""
    from common.privacy.window_dp import privatise, skip_forward  # seconds: Opacus

    # A window's place in the batch decides its shift and its stochastic depth. Were these known,
    # leaving one window out would visibly change the gradients of all after it, and clipping
    # would bound nothing; drawn in secret and alike for all, they add no sensitivity.
    torch.seed()
    secret = np.random.default_rng()  # from the operating system
    module, optimizer = privatise(
        local.network, local.optimizer(), sigma=spend.sigma, clip=privacy.clip,
        expected_batch=spend.q * local.n, gaussian=GAUSSIAN[privacy.noise])
    return train(module, optimizer, _poisson(local.n, spend), local.batch(secret), local.loss,
                 local.schedule(spend.steps), skip_forward)


def _poisson(n: int, spend: Spend) -> Iterator[Indices]:
    for _ in range(spend.steps):
        yield poisson_indices(n, spend.q)
