"""One hospital: its windows, its networks, and one private round of training on them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor, nn

from client.ledger import Ledger, Release
from client.local_round import LocalRound, train_plainly, train_privately
from common.anonymizers.contract import Frozen
from common.anonymizers.rean import at_share, rean_loss
from common.config import Settings
from common.ecg.labels import decided
from common.ecg.subsets import balanced_training_set
from common.ecg.windows import Store
from common.errors import BudgetError, NoWindowsError, SettingsError
from common.models.classifier import Classifier, build, load_shared, shared_state
from common.models.files import load_state, save_state
from common.privacy.accounting import Spend, calibrate
from common.protocol import ARRHYTHMIA_CLASSES, CLASSIFIER_STAGES, STAGES, Stage
from common.training import (
    Indices,
    Loss,
    allowed_loss,
    device_of,
    masked_loss,
    sampling,
    seed_from,
)


@dataclass(frozen=True)
class Update:
    """What a training round gives: weights that may leave, and the count the hospital declares."""

    state: dict[str, Tensor]
    examples: int
    loss: float


def digest(state: Mapping[str, Tensor]) -> str:
    """SHA-256 of named weights, in the order of their names."""
    sha = hashlib.sha256()
    for name in sorted(state):
        sha.update(name.encode())
        sha.update(np.ascontiguousarray(state[name].detach().cpu().numpy()).tobytes())
    return sha.hexdigest()


def check_leads(site: str, store: Store, settings: Settings) -> None:
    """Raise SettingsError unless the site's windows have the run's number of leads."""
    leads = store.windows.shape[1]
    if leads != settings.leads:
        raise SettingsError(f"hospital {site} has {leads} leads a window; leads is "
                            f"{settings.leads}, and must be {leads} or its hospital file must "
                            f"name {settings.leads}")


class Hospital:
    """A hospital in one run.

    Args:
        site: its name.
        store: prepared windows.
        state: folder on the hospital's own disk: identity heads, frozen models, kept replies.
        ledger: its privacy ledger, which outlives runs.
        settings: of the run.
        run: identifier of the run.
    """

    def __init__(self, site: str, store: Store, state: Path, ledger: Path, settings: Settings,
                 run: str) -> None:
        check_leads(site, store, settings)
        torch.set_num_threads(settings.threads)
        self.site, self.store, self.settings, self.run = site, store, settings, run
        self.state = state / run
        self.ledger = Ledger(ledger)
        self.device = device_of(settings.device)
        self.allowed = store.labels(settings.labels)
        self.slot = self._assign_slots()

    def _assign_slots(self) -> NDArray[np.int64]:
        """Identity slot of each patient of the store, -1 for reserved ones; drawn at random."""
        index = self.store.index
        members = np.unique(index["patient"][~index["reserved"]])
        slots = self.settings.slots or len(members)
        if slots < len(members):
            raise SettingsError(f"slots is {slots}; {self.site} needs at least {len(members)}, "
                                "one for each patient in training")
        generator = np.random.default_rng(seed_from(self.settings, self.site, "slots"))
        slot = np.full(len(self.store.info["patients"]), -1, dtype=np.int64)
        slot[members] = generator.permutation(slots)[: len(members)]
        self.slots = slots
        return slot

    def network(self, stage: Stage) -> nn.Module:
        """The stage's network; its weights come from the server, but for the identity head."""
        seed = seed_from(self.settings, self.site, stage)
        return build(stage, self.settings, self.settings.leads, self.slots, seed).to(self.device)

    def usable(self, stage: Stage) -> Indices:
        """Training windows that carry information for a stage; reserved patients never do."""
        rows = self.store.select("train", reserved=False)
        if stage == "diagnosis":
            rows = rows[self.allowed[rows] != (1 << len(ARRHYTHMIA_CLASSES)) - 1]
        elif stage in ("sex", "age"):
            rows = rows[self.store.index[stage][rows] >= 0]
        elif stage == "anonymizer" and self.settings.rean.windows:
            classes = decided(self.allowed)
            if (classes[rows] >= 0).any():  # without labels there is nothing to balance by
                rows = balanced_training_set(self.store.index, classes, self.settings.seed,
                                             self.settings.rean.windows)
        return rows

    def fetch(self, rows: Indices) -> dict[str, Tensor]:
        """Windows and labels of rows of the store: x (B, leads, L), the others (B,)."""
        index = self.store.index[rows]
        batch = {
            "x": torch.from_numpy(np.array(self.store.windows[rows])),
            "allowed": torch.from_numpy(self.allowed[rows].astype(np.int64)),
            "identity": torch.from_numpy(self.slot[index["patient"]]),
            "sex": torch.from_numpy(index["sex"].astype(np.int64)),
            "age": torch.from_numpy(index["age"].astype(np.int64)),
        }
        return {name: value.to(self.device) for name, value in batch.items()}

    def loss(self, stage: Stage, number: int) -> Loss:
        """The stage's loss of each window, (B,), in a round of it."""
        if stage == "diagnosis":
            return lambda net, b: allowed_loss(net(b["x"]), b["allowed"])
        if stage == "anonymizer":
            rounds = self.settings.anonymizer.rounds
            share = (number - 1) / (rounds - 1) if rounds > 1 else 1.0
            frozen, rean = self.frozen(), at_share(self.settings.rean, share)
            return lambda net, b: rean_loss(net, b, frozen, rean)
        return lambda net, b: masked_loss(net(b["x"]), b[stage])

    def freeze(self, stage: Stage, state: Mapping[str, Tensor]) -> None:
        """Keep the final shared weights of a stage."""
        save_state(self.state / "frozen" / f"{stage}.safetensors", state, {"stage": stage})

    def trained(self, stage: Stage) -> nn.Module:
        """The final network of a stage, as this hospital holds it."""
        network = self.network(stage)
        load_shared(stage, network, load_state(self.state / "frozen" / f"{stage}.safetensors"))
        if stage == "identity":
            self._load_head(network, self.settings.identity.rounds)
        return network.eval()

    def frozen(self) -> Frozen:
        """The training signal of the anonymizer."""
        return Frozen(*(self.trained(stage) for stage in CLASSIFIER_STAGES)).freeze()

    def _head_file(self, number: int) -> Path:
        return self.state / "heads" / f"{number}.safetensors"

    def _load_head(self, network: nn.Module, number: int) -> None:
        """The head after a round; round 0 is the initial one. Heads never leave the hospital."""
        if number > 0 and isinstance(network, Classifier) and self._head_file(number).exists():
            network.head.load_state_dict(load_state(self._head_file(number)))

    def plan(self) -> list[tuple[Stage, float, int]]:
        """(stage, sampling rate q, steps a round) of every stage this hospital takes part in."""
        plan: list[tuple[Stage, float, int]] = []
        for stage in STAGES:
            n, training = len(self.usable(stage)), self.settings.stage(stage)
            if n:
                plan.append((stage, *sampling(n, training)))
        return plan

    def noise_multiplier(self) -> float:
        """One noise multiplier for the whole run: all stages, all rounds."""
        privacy = self.settings.privacy
        steps = tuple((q, count * self.settings.stage(s).rounds) for s, q, count in self.plan())
        return _calibrated(steps, privacy.epsilon, privacy.delta)

    def train_round(self, stage: Stage, number: int, received: Mapping[str, Tensor]) -> Update:
        """Train one round from the received weights, charge the ledger, keep the reply.

        Raises:
            NoWindowsError: no usable window for the stage.
            BudgetError: the ledger's cap does not allow the round.
        """
        rows = self.usable(stage)
        if not len(rows):
            raise NoWindowsError(f"hospital {self.site} has 0 usable training windows for "
                                 f"{stage}; at least 1 is needed")
        inputs, kept = digest(received), self.state / "replies" / f"{stage}-{number}.safetensors"
        settled = self.ledger.find(self.run, stage, number, inputs)
        if settled is not None and kept.exists():
            return Update(self._kept(kept, settled), len(rows), float("nan"))
        network = self.network(stage)
        load_shared(stage, network, received)
        if stage == "identity":
            self._load_head(network, number - 1)
        row, loss = self._train(stage, number, rows, network, inputs)
        if stage == "identity" and isinstance(network, Classifier):
            save_state(self._head_file(number), network.head.state_dict(), {"round": str(number)})
        state = shared_state(stage, network)
        save_state(kept, state, {"stage": stage, "round": str(number)})
        self.ledger.settle(row, digest(state))
        return Update(state, len(rows), loss)

    @staticmethod
    def _kept(file: Path, row: Release) -> dict[str, Tensor]:
        """A reply that was paid for; raise BudgetError if the file is not what the ledger names."""
        try:
            state = load_state(file)
            found = digest(state)
        except (OSError, SafetensorError) as error:
            found, state = f"unreadable ({error})", {}
        if found != row.reply:
            raise BudgetError(f"kept reply {file} has hash {found}; row {row.id} of the ledger "
                              f"allows only {row.reply}: restore the file, or delete it to train "
                              "and be charged again")
        return state

    def _train(self, stage: Stage, number: int, rows: Indices, network: nn.Module,
               inputs: str) -> tuple[int, float]:
        """Charge first, then train in place; (ledger row, mean loss)."""
        training, privacy = self.settings.stage(stage), self.settings.privacy
        spend = None
        if privacy.unit == "window":
            q, steps = sampling(len(rows), training)
            spend = Spend(q, self.noise_multiplier(), steps)
        row = self.ledger.charge(self.run, stage, number, "window" if spend else "none", spend,
                                 privacy.delta, inputs, privacy.cap or privacy.epsilon)
        seed = seed_from(self.settings, self.site, stage, number)
        local = LocalRound(network, lambda i: self.fetch(rows[i]), self.loss(stage, number),
                           len(rows), training, number, seed, shift=stage != "anonymizer")
        loss = train_privately(local, spend, privacy.clip) if spend else train_plainly(local)
        return row, loss


# The search takes seconds and its inputs do not change during a run.
_calibrated = lru_cache(calibrate)
