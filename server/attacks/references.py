"""Reference models: what a released model would be, had other patients been in training.

They repeat the run's recipe on halves of each hospital's patients, members and non-members alike:
rounds of local training, averaged as the server averages, from the weights that the server sent
first. They learn without privacy even where the run had it: its noise would make the attack fairer,
not stronger, at several times the cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.anonymizers.contract import Frozen
from common.anonymizers.rean import at_share, rean_loss
from common.models.classifier import Classifier, build, load_shared, shared_state
from common.models.files import load_state, save_state
from common.protocol import CLASSIFIER_STAGES, Stage
from common.training import (
    Indices,
    Loss,
    Schedule,
    allowed_loss,
    device_of,
    masked_loss,
    predict,
    seed_from,
    shifted,
    shuffled,
    train,
)
from server.attacks.case import Case
from server.attacks.signals import released, usable

Bools = NDArray[np.bool_]
_PROBE_STEPS = 200


def halves(patient: Indices, hospital: Indices, count: int, seed: int) -> Bools:
    """Who is in which reference: pairs of random halves of each hospital's patients.

    The second of a pair is the rest of the first, so that each patient is in exactly half of them.

    Args:
        patient, hospital: of each window, [n]; patients are numbered across hospitals.
        count: references, even.
        seed: of the draw.

    Returns:
        [count, highest patient + 1].
    """
    generator = np.random.default_rng(seed)
    inside = np.zeros((count, int(patient.max()) + 1), dtype=bool)
    for first in range(0, count, 2):
        for site in np.unique(hospital):
            people = generator.permutation(np.unique(patient[hospital == site]))
            # Of an odd number, which half is larger is a coin's choice.
            cut = (len(people) + int(generator.integers(2))) // 2
            inside[first, people[:cut]] = inside[first + 1, people[cut:]] = True
    return inside


@dataclass(frozen=True)
class References:
    """Trains references, or loads what an interrupted audit has trained.

    Args:
        case: settings, bundles, and the folder in which "reference" is kept.
        inside: who is in which, [references, patients].
    """

    case: Case
    inside: Bools
    _heads: dict[int, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def groups(self) -> list[Indices]:
        """Hospitals that train one model together."""
        sites = np.arange(len(self.case.bundles.info))
        return [sites[i : i + 1] for i in sites] if self.case.settings.training == "local" \
            else [sites]

    def network(self, stage: Stage, number: int, group: Indices) -> nn.Module:
        """Reference `number` of a stage, of a group of hospitals; an identity head is no part."""
        network = self._build(stage, 2)
        load_shared(stage, network, self._state(stage, number, group))
        return network.eval()

    def _build(self, stage: Stage, identities: int) -> nn.Module:
        settings = self.case.settings
        return build(stage, settings, self.case.bundles.clean.shape[1], identities,
                     seed_from(settings, "server", stage)).to(device_of(settings.device))

    def _state(self, stage: Stage, number: int, group: Indices) -> dict[str, Tensor]:
        name = f"{stage}-{number}{f'-{group[0]}' if len(self.groups) > 1 else ''}"
        kept = self.case.folder / "reference" / f"{name}.safetensors"
        if kept.exists():
            return load_state(kept)
        self.case.progress(f"training reference {number + 1} of {len(self.inside)} for {stage}")
        torch.set_num_threads(self.case.settings.threads)
        state = shared_state(stage, self._build(stage, 2))
        if stage in ("sex", "age"):  # as in a run
            state |= self._state("identity", number, group)
        self._heads.clear()
        for turn in range(1, self.case.settings.stage(stage).rounds + 1):
            state = self._round(stage, number, group, turn, state)
        save_state(kept, state, {"stage": stage})
        return state

    def _round(self, stage: Stage, number: int, group: Indices, turn: int,
               state: dict[str, Tensor]) -> dict[str, Tensor]:
        """One round: each hospital trains from the state; the mean, weighted by windows."""
        bundles = self.case.bundles
        rows = usable(bundles, stage)
        rows = rows[self.inside[number, bundles.patient[rows]]]
        replies, weights = [], []
        for hospital in group:
            own = rows[bundles.hospital[rows] == hospital]
            if len(own):
                replies.append(self._local(stage, number, int(hospital), turn, own, state))
                weights.append(len(own))
        if not replies:
            return state
        share = np.array(weights) / sum(weights)
        return {name: torch.stack([w * reply[name] for w, reply in zip(share, replies, strict=True)
                                   ]).sum(0).to(value.dtype) for name, value in state.items()}

    def _local(self, stage: Stage, number: int, hospital: int, turn: int, rows: Indices,
               state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What a hospital would reply; its identity head stays for its next round."""
        settings, people = self.case.settings, np.unique(self.case.bundles.patient[rows])
        training = settings.stage(stage)
        network = self._build(stage, max(2, len(people)))
        load_shared(stage, network, state)
        if isinstance(network, Classifier) and stage == "identity" and hospital in self._heads:
            network.head.load_state_dict(self._heads[hospital])
        seed = seed_from(settings, "reference", stage, number, hospital, turn)
        torch.manual_seed(seed)
        generator = np.random.default_rng(seed + 1)

        def fetch(i: Indices) -> dict[str, Tensor]:
            batch = self._batch(rows[i], people if stage == "identity" else self._people(hospital))
            return batch if stage == "anonymizer" else shifted(batch, generator)

        steps = -(-len(rows) // training.batch) * training.epochs
        optimizer = torch.optim.AdamW(network.parameters(), lr=training.lr,
                                      weight_decay=training.weight_decay)
        train(network, optimizer, shuffled(len(rows), training.batch, training.epochs, seed), fetch,
              self._loss(stage, hospital, turn),
              Schedule(training.lr, (turn - 1) * steps, training.rounds * steps))
        if isinstance(network, Classifier) and stage == "identity":
            self._heads[hospital] = {k: v.detach().clone()
                                     for k, v in network.head.state_dict().items()}
        return shared_state(stage, network)

    def _people(self, hospital: int) -> Indices:
        return np.unique(self.case.bundles.patient[self.case.bundles.hospital == hospital])

    def _batch(self, rows: Indices, people: Indices) -> dict[str, Tensor]:
        bundles, device = self.case.bundles, device_of(self.case.settings.device)
        arrays = {"x": np.array(bundles.clean[rows]), "sex": bundles.sex[rows],
                  "age": bundles.age[rows], "allowed": bundles.allowed[rows].astype(np.int64),
                  "identity": np.searchsorted(people, bundles.patient[rows])}
        return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}

    def _loss(self, stage: Stage, hospital: int, turn: int) -> Loss:
        if stage == "diagnosis":
            return lambda net, b: allowed_loss(net(b["x"]), b["allowed"])
        if stage != "anonymizer":
            return lambda net, b: masked_loss(net(b["x"]), b[stage])
        rounds, frozen = self.case.settings.anonymizer.rounds, self._frozen[hospital]
        rean = at_share(self.case.settings.rean, (turn - 1) / (rounds - 1) if rounds > 1 else 1.0)
        return lambda net, b: rean_loss(net, b, frozen, rean)

    @cached_property
    def _frozen(self) -> dict[int, Frozen]:
        """The released classifiers, with an identity head that the auditor fits for each hospital.

        The hospital's own head never left; this one knows all its patients, reserved ones too.
        """
        found = {}
        for hospital in range(len(self.case.bundles.info)):
            networks = {stage: released(self.case, stage, hospital) for stage in CLASSIFIER_STAGES}
            identity = networks["identity"]
            assert isinstance(identity, Classifier) and all(networks.values())
            self._fit_head(identity, hospital)
            found[hospital] = Frozen(*filter(None, networks.values())).freeze()
        return found

    def _fit_head(self, network: Classifier, hospital: int) -> None:
        bundles, people = self.case.bundles, self._people(hospital)
        rows = bundles.rows("train")
        rows = rows[bundles.hospital[rows] == hospital]
        features = predict(network.backbone, bundles.clean[rows])
        label = torch.from_numpy(np.searchsorted(people, bundles.patient[rows]))
        torch.manual_seed(seed_from(self.case.settings, "reference", "head", hospital))
        head = nn.Linear(network.backbone.features, len(people))
        optimizer = torch.optim.AdamW(head.parameters(), lr=0.05)
        for _ in range(_PROBE_STEPS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(head(features), label).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.head = head.to(device_of(self.case.settings.device))


def can_train(case: Case, stage: Stage) -> bool:
    """Whether the auditor holds what the references of a stage are trained with."""
    return stage != "anonymizer" or all(
        released(case, needed, hospital) is not None
        for needed in CLASSIFIER_STAGES for hospital in range(len(case.bundles.info)))
