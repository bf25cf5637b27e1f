"""One hospital in one run: its windows, its networks, and what each stage learns from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from client.canary_state import CanaryState
from client.feasibility import check_privacy
from client.ledger import Ledger
from client.node import window_settings
from common.anonymizers.contract import Frozen
from common.anonymizers.rean import at_share, rean_loss
from common.config import Settings
from common.ecg.labels import decided
from common.ecg.public import public_store
from common.ecg.subsets import balanced_training_set
from common.ecg.windows import Store
from common.errors import SettingsError
from common.models.classifier import Classifier, build, load_shared
from common.models.files import load_state, save_state
from common.models.trainable import choose
from common.models.verifier import Verifier, verification_loss
from common.protocol import ARRHYTHMIA_CLASSES, CLASSIFIER_STAGES, Stage
from common.training import Indices, Loss, allowed_loss, device_of, masked_loss, seed_from

_STRANGERS = 256  # public windows that a released one is told from, while REAN trains


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
        public: folder of the synthetic public windows; default: one in `state`.
    """

    def __init__(self, site: str, store: Store, state: Path, ledger: Ledger, settings: Settings,
                 run: str, public: Path | None = None) -> None:
        check_leads(site, store, settings)
        check_privacy(site, store, settings)
        torch.set_num_threads(settings.threads)
        self.site, self.store, self.settings, self.run = site, store, settings, run
        self.state, self._public = state / run, public or state / "public"
        self.canaries = CanaryState(self.state / "canaries", settings.privacy.canaries)
        self.ledger = ledger
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
        made = build(stage, self.settings, self.settings.leads, self.slots, seed)
        return choose(made, self.settings.trainable).to(self.device)

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
        if stage == "identity" and self.settings.identity_by == "embedding":
            return lambda net, b: verification_loss(net, b["x"], self._strangers(len(b["x"])))
        if stage == "anonymizer":
            rounds = self.settings.anonymizer.rounds
            share = (number - 1) / (rounds - 1) if rounds > 1 else 1.0
            frozen, rean = self.frozen(), at_share(self.settings.rean, share)
            return lambda net, b: rean_loss(net, b, frozen, rean)
        return lambda net, b: masked_loss(net(b["x"]), b[stage])

    @cached_property
    def public(self) -> Tensor:
        """Windows of synthetic people, (P, leads, L)."""
        store = public_store(self.settings.privacy.public, window_settings(self.settings),
                             self._public)
        return torch.from_numpy(np.array(store.windows)).to(self.device)

    def _strangers(self, count: int) -> Tensor:
        """Public windows, drawn anew; who is drawn says nothing of a patient."""
        return self.public[torch.randint(len(self.public), (count,))]

    def freeze(self, stage: Stage, state: Mapping[str, Tensor]) -> None:
        """Keep the final shared weights of a stage."""
        save_state(self.state / "frozen" / f"{stage}.safetensors", state, {"stage": stage})

    def trained(self, stage: Stage) -> nn.Module:
        """The final network of a stage, as this hospital holds it."""
        network = self.network(stage)
        load_shared(stage, network, load_state(self.state / "frozen" / f"{stage}.safetensors"))
        if stage == "identity":
            self.load_head(network, self.settings.identity.rounds)
        return network.eval()

    def frozen(self) -> Frozen:
        """The training signal of the anonymizer."""
        networks = [self.trained(stage) for stage in CLASSIFIER_STAGES]
        public = None
        if isinstance(networks[1], Verifier):
            with torch.no_grad():
                some = np.linspace(0, len(self.public) - 1, _STRANGERS).astype(np.int64)
                public = networks[1](self.public[some])
        return Frozen(*networks, public=public).freeze()

    def _head_file(self, number: int) -> Path:
        return self.state / "heads" / f"{number}.safetensors"

    def load_head(self, network: nn.Module, number: int) -> None:
        """The head after a round; round 0 is the initial one. Heads never leave the hospital."""
        if number > 0 and isinstance(network, Classifier) and self._head_file(number).exists():
            network.head.load_state_dict(load_state(self._head_file(number)))

    def save_head(self, network: nn.Module, number: int) -> None:
        """Keep the head of a round; a Verifier has none."""
        if isinstance(network, Classifier):
            save_state(self._head_file(number), network.head.state_dict(), {"round": str(number)})
