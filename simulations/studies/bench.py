"""The bench that all anonymizers share: the same windows, networks, attackers and sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from client.hospital import Hospital
from client.ledger import Ledger
from common.anonymizers.contract import Floats, Frozen, Labelled, labelled
from common.config import Settings
from common.ecg import subsets
from common.ecg.labels import decided
from common.ecg.store import Store
from common.errors import InputError
from common.training import Indices
from server.attackers import Attacker, train_attacker, train_diagnosis
from server.bundles import Bundles, load_bundles
from server.run_directory import run_id
from simulations.consortium import federate, prepare_sites

Progress = Callable[[str], None]


@dataclass(frozen=True)
class PooledRun:
    """A pooled run that is done: its windows and the networks that it trained.

    Args:
        settings: of the run.
        folder: of the run.
        store: of the pooled windows.
        bundles: clean windows of all parts with their labels, and REAN's release.
        data: the same windows as anonymizers take them, row by row.
        frozen: the training signal.
        rean: REAN's trained U-Net.
    """

    settings: Settings
    folder: Path
    store: Store
    bundles: Bundles
    data: Labelled
    frozen: Frozen
    rean: nn.Module


def pooled_run(folder: Path, settings: Settings, data: Path, progress: Progress) -> PooledRun:
    """Train what is left of a pooled run, or load it.

    Raises:
        InputError: the settings are not those of a pooled run without privacy.
    """
    if settings.training != "pooled" or settings.privacy.unit != "none":
        raise InputError(f"training is {settings.training!r}, privacy.unit "
                         f"{settings.privacy.unit!r}; allowed here: pooled, none, as in the paper")
    torch.set_num_threads(settings.threads)  # where all is kept, nothing else sets them
    sites, _ = prepare_sites(settings, data, lambda stage, number, rounds: None)
    if not (folder / "bundles" / "pooled" / "bundle.json").exists():  # the last thing of a run
        federate(folder, settings, sites,
                 lambda stage, number, rounds: progress(f"{stage} {number}/{rounds}"))
    store, bundles = sites[0].store, load_bundles(folder / "bundles")
    hospital = Hospital("pooled", store, folder / "hospitals" / "pooled",
                        Ledger(folder / "ledgers" / "pooled.sqlite"), settings, run_id(folder))
    windows = labelled(store, np.arange(len(store.index)), settings.labels)
    windows = replace(windows, identity=bundles.slot)  # as the frozen identity head numbers them
    return PooledRun(settings, folder, store, bundles, windows, hospital.frozen(),
                     hospital.trained("anonymizer"))


@dataclass(frozen=True)
class Bench:
    """Everything that is the same for all methods.

    Args:
        settings: of the pooled run that trained the networks.
        folder: of the study.
        bundles: clean windows of all parts with their labels, and REAN's release.
        data: the same windows as anonymizers take them, row by row.
        frozen: the training signal.
        rean: REAN's trained U-Net.
        attacker: the auditor's, trained on clean windows.
        judges: diagnosis networks trained on clean windows that were in no loss, by name.
        sets: rows of each evaluation set, by name.
    """

    settings: Settings
    folder: Path
    bundles: Bundles
    data: Labelled
    frozen: Frozen
    rean: nn.Module
    attacker: Attacker
    judges: Mapping[str, nn.Module]
    sets: dict[str, Indices]

    def part(self, name: str) -> Labelled:
        """Windows of a temporal part, of patients in training."""
        return self.data.select(self.rows(name))

    def rows(self, name: str) -> Indices:
        """Rows of a temporal part, of patients in training."""
        rows = self.bundles.rows(name)
        return rows[~self.bundles.reserved[rows]]


def build_bench(folder: Path, settings: Settings, data: Path, progress: Progress) -> Bench:
    """Train, or load, the networks that every method is measured by.

    Raises:
        InputError: the settings are not those of a pooled run without privacy.
    """
    run = pooled_run(folder, settings, data, progress)
    bundles = run.bundles
    progress("the auditor's attacker on clean windows")
    kept = folder / "audit"
    attacker = train_attacker(bundles, bundles.clean, settings, kept / "clean.safetensors")
    judges = {}
    for name in ("inception_time", "resnet1d"):
        progress(f"an independent diagnosis network, {name}")
        judges[name] = train_diagnosis(bundles, bundles.clean, settings,
                                       kept / f"independent-{name}.safetensors", name)
    return Bench(settings, folder, bundles, run.data, run.frozen, run.rean, attacker, judges,
                 _sets(run.store, settings))


def _sets(store: Store, settings: Settings) -> dict[str, Indices]:
    """The paper's three evaluation sets; each min(n, available)."""
    classes = decided(store.labels(settings.labels))
    draws = {"shared 500": subsets.shared_set, "20,000": subsets.natural_subset,
             "SVE-enriched": subsets.balanced_set}
    return {name: draw(store.index, classes, settings.seed) for name, draw in draws.items()}


def keep_array(file: Path, make: Callable[[], Floats]) -> Floats:
    """An array that an earlier call made, or a new one, kept whole or not at all."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f".{file.name}")
        with fresh.open("wb") as stream:
            np.save(stream, make())
        fresh.replace(file)
    found: Floats = np.load(file, mmap_mode="r")
    return found
