"""REACT: for the windows of one patient, PPO finds how much noise each segment gets.

Source: Datta et al., "REACT: Reinforcement learning-based adaptive ECG anonymization and privacy
threat mitigation", IEEE COINS 2025, of which only the abstract was at hand, and REAN
(arXiv:2607.06037), section IV, where it "re-optimizes per record" and costs 12.7 ms a window. Kept:
noise injected by a reinforcement-learning agent that is trained anew on what it releases, and a
reward of several objectives: attackers fail, the diagnosis stays. Left open there and chosen here:

- a group is up to `GROUP` windows of one patient, in the order given (`Labelled` knows no records);
- each window is a bandit: the agent sees three features of each of 20 segments, answers with the
  logarithm of each segment's noise scale and is paid at once;
- the reward of a window is privacy * hidden - lost - distortion * PRD, where `hidden` is the mean
  over identity, sex and age of the frozen attacker's cross-entropy over that of ignorance, at most
  1 (more would only pay for a flipped answer), and `lost` is the frozen diagnosis's cross-entropy,
  likewise scaled, without a cap;
- right answers are those the frozen networks give to the clean window, so that releasing needs no
  label and is not steered by the labels that an audit will ask for.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from common.anonymizers.contract import Effort, Floats, Frozen, Ints, Labelled, Range
from common.anonymizers.rean import prd
from common.training import masked_loss, predict

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

ATTACKED = ("identity", "sex", "age")
SEGMENTS = 20  # of a window
GROUP = 16  # windows, at most, that share an agent
ROLLOUTS = 15  # updates of an agent, each after `TRIES` noisy versions of every window
TRIES = 8
LEAST, LARGEST = 0.005, 0.3  # noise scales, in the window's [0, 1] range; the agent picks the log


def groups(patient: Ints, most: int = GROUP) -> list[Ints]:
    """Rows of each group: windows of one patient, at most `most`, in equal parts; [n] -> rows."""
    out: list[Ints] = []
    for name in np.unique(patient):
        rows = np.flatnonzero(patient == name)
        out += np.array_split(rows, -(-len(rows) // most))
    return out


def segment_features(x: Floats) -> Floats:
    """Each segment's mean, spread and roughness, standardised: [n, leads, L] -> [n, features]."""
    rough = np.abs(np.diff(x, axis=2, append=x[..., -1:]))
    columns = []
    for part in np.array_split(np.arange(x.shape[2]), SEGMENTS):
        columns += [x[..., part].mean(2), x[..., part].std(2), rough[..., part].mean(2)]
    out = np.concatenate(columns, axis=1)
    return np.asarray((out - out.mean(0)) / (out.std(0) + 1e-6), np.float32)


class Game:
    """What the agent of one group sees, does and is paid for.

    Args:
        x: the group's clean windows, [n, leads, L].
        frozen: attackers and diagnosis, on one device.
        privacy, distortion, generator: weights of the reward, and what draws the noise.
    """

    def __init__(self, x: Floats, frozen: Frozen, privacy: float, distortion: float,
                 generator: np.random.Generator) -> None:
        self.x, self.frozen, self.generator = x, frozen, generator
        self.privacy, self.distortion = privacy, distortion
        self.sight = segment_features(x)  # (n, 3 * leads * SEGMENTS)
        self.device = next(frozen.diagnosis.parameters()).device
        self.answers = {name: predict(getattr(frozen, name), x).argmax(1).to(self.device)
                        for name in (*ATTACKED, "diagnosis")}
        self.segment = np.arange(x.shape[2]) * SEGMENTS // x.shape[2]  # of each sample, (L,)

    def play(self, action: Floats) -> Floats:
        """The windows with noise; action (n, SEGMENTS) in [-1, 1] -> (n, leads, L)."""
        share = (action[:, None, self.segment] + 1) / 2  # (n, 1, L)
        scale = LEAST ** (1 - share) * LARGEST**share
        return np.asarray(self.x + scale * self.generator.standard_normal(self.x.shape), np.float32)

    def surprise(self, name: str, released: torch.Tensor) -> torch.Tensor:
        """Cross-entropy of a network's own clean answer; 1 is ignorance, (n,)."""
        logits = getattr(self.frozen, name)(released)
        return masked_loss(logits, self.answers[name]) / math.log(max(2, logits.shape[1]))

    @torch.no_grad()
    def reward(self, action: Floats) -> Floats:
        """(n, SEGMENTS) -> (n,)."""
        x = torch.from_numpy(self.x).to(self.device)
        released = torch.from_numpy(self.play(action)).to(self.device)
        hidden = torch.stack([self.surprise(name, released).clamp(max=1) for name in ATTACKED])
        paid = (self.privacy * hidden.mean(0) - self.surprise("diagnosis", released)
                - self.distortion * prd(x, released) / 100)
        return np.asarray(paid.cpu())


def environment(game: Game) -> VecEnv:
    """The game as stable-baselines3 wants it: an environment a window, one forward pass for all."""
    from gymnasium.spaces import Box
    from stable_baselines3.common.vec_env import VecEnv

    count = len(game.x)

    class Windows(VecEnv):
        """Episodes of one step; what follows `step_wait` only satisfies the base class."""

        def reset(self) -> Floats:
            return game.sight

        def step_async(self, actions: Floats) -> None:
            self.paid = game.reward(actions)

        def step_wait(self) -> tuple[Floats, Floats, Any, list[dict[str, Any]]]:
            return game.sight, self.paid, np.ones(count, bool), [{} for _ in range(count)]

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            return [None] * count  # only ever asked for the render mode

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [True] * count  # no need to warn that nobody records the episodes

        set_attr = env_method = close = NotImplemented

    return Windows(count, Box(-np.inf, np.inf, game.sight.shape[1:]), Box(-1, 1, (SEGMENTS,)))


@contextmanager
def private_randomness() -> Iterator[None]:
    """stable-baselines3 seeds the whole process: give it back its own randomness afterwards."""
    kept, legacy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(kept)
        np.random.set_state(legacy)


def learned_scales(game: Game, seed: int) -> Floats:
    """Train an agent for the game and ask it for its best action, (n, SEGMENTS) in [-1, 1]."""
    from stable_baselines3 import PPO

    batch = TRIES * len(game.x)
    with private_randomness():
        agent = PPO("MlpPolicy", environment(game), learning_rate=1e-2, n_steps=TRIES, seed=seed,
                    batch_size=batch, n_epochs=4, gamma=0.0, clip_range=0.3, device="cpu",
                    policy_kwargs={"net_arch": [32], "log_std_init": -0.7})
        agent.learn(ROLLOUTS * batch)
        action, _ = agent.predict(game.sight, deterministic=True)
    return np.asarray(action, np.float32)


class React:
    """REACT as an Anonymizer; nothing is learned before a release, and each release learns anew.

    An agent is trained on ROLLOUTS * TRIES noisy versions of each window, whatever the effort.

    Args:
        privacy: weight of `hidden` in the reward.
        distortion: weight of PRD, as a ratio.
    """

    name = "react"
    stochastic = True
    space: ClassVar[Mapping[str, Range]] = {
        "privacy": Range(0.5, 50.0, log=True), "distortion": Range(0.05, 5.0, log=True)}

    def __init__(self, privacy: float = 10.0, distortion: float = 0.5) -> None:
        self.privacy, self.distortion = privacy, distortion
        self.frozen: Frozen | None = None

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Keep the frozen networks: a release needs them."""
        self.frozen = frozen.to(effort.device)

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """[n, leads, L] with noise; values leave [0, 1].

        Raises:
            RuntimeError: `fit` was not called.
        """
        if self.frozen is None:
            raise RuntimeError("react was not fitted; call fit first, which gives it its networks")
        out = np.empty_like(data.x)
        for number, rows in enumerate(groups(data.patient)):
            generator = np.random.default_rng([seed, number])
            game = Game(data.x[rows], self.frozen, self.privacy, self.distortion, generator)
            out[rows] = game.play(learned_scales(game, int(generator.integers(2**31))))
        return out
