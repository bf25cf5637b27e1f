"""What every anonymizer is: fitted on labelled windows, then windows in and windows out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from common.ecg.beats import Beats
from common.ecg.store import Store
from common.training import Indices

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Labelled:
    """Windows and what is known of each.

    Args:
        x: float32 [n, leads, L] in [0, 1].
        rate: Hz.
        allowed: masks of possible arrhythmia classes, [n] integers.
        identity: index of the patient among those in training, -1 for others, [n].
        patient: patient, reserved ones too, [n].
        sex, age: indices, -1 where unknown, [n].
        beats: as annotated; none where nothing is.
    """

    x: Floats
    rate: float
    allowed: Ints
    identity: Ints
    patient: Ints
    sex: Ints
    age: Ints
    beats: Beats

    def __len__(self) -> int:
        return len(self.x)

    def select(self, rows: Indices) -> Labelled:
        """Some of the windows."""
        arrays: dict[str, Any] = {f.name: getattr(self, f.name)[rows] for f in fields(self)
                                  if f.name not in ("rate", "beats")}
        return replace(self, **arrays, beats=self.beats.select(rows))

    def batch(self, rows: Indices, device: torch.device) -> dict[str, Tensor]:
        """Tensors of some windows: x (B, leads, L), the labels (B,)."""
        names = ("x", "allowed", "identity", "sex", "age")
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in names}
        return {name: torch.from_numpy(np.array(array[rows])).to(device)
                for name, array in arrays.items()}


def labelled(store: Store, rows: Indices, labels: str) -> Labelled:
    """Windows of a store, read into memory.

    Args:
        store: of one hospital, or pooled.
        rows: which windows.
        labels: "strict" or "paper".
    """
    index, people = store.index[rows], store.index
    members = np.unique(people["patient"][~people["reserved"]])
    number = np.full(int(people["patient"].max()) + 1, -1, dtype=np.int64)
    number[members] = np.arange(len(members))
    return Labelled(
        np.array(store.windows[rows]), float(store.info["sampling_rate"]),
        store.labels(labels)[rows].astype(np.int64), number[index["patient"]],
        index["patient"].astype(np.int64), index["sex"].astype(np.int64),
        index["age"].astype(np.int64), store.beats().select(rows))


@dataclass(frozen=True)
class Frozen:
    """The training signal: four networks that nothing updates any more.

    Args:
        diagnosis, sex, age: [B, leads, L] -> logits.
        identity: logits of the patients, or, where there are `public` ones, embeddings.
        public: embeddings of public windows that a patient is told from, (P, d).
    """

    diagnosis: nn.Module
    identity: nn.Module
    sex: nn.Module
    age: nn.Module
    public: Tensor | None = field(default=None, kw_only=True)

    def freeze(self) -> Frozen:
        """Evaluation mode, no gradients for the weights."""
        for network in (self.diagnosis, self.identity, self.sex, self.age):
            network.eval().requires_grad_(False)
        return self

    def to(self, device: torch.device) -> Frozen:
        """Move the networks."""
        for network in (self.diagnosis, self.identity, self.sex, self.age):
            network.to(device)
        return self


@dataclass(frozen=True)
class Effort:
    """How long to learn: the same for all methods of one comparison.

    Args:
        steps: of the optimizer, each on `batch` windows; a method without gradients may read it
            as a number of updates and says so.
        batch: windows a step.
        seed: of all that is drawn while fitting.
        device: to fit on.
    """

    steps: int
    batch: int = 32
    seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))


@dataclass(frozen=True)
class Range:
    """Values that a search may try for one setting of a method."""

    low: float
    high: float
    log: bool = False


class Anonymizer(Protocol):
    """A method. Its constructor takes its settings, each with a default.

    Attributes:
        name: short, for tables.
        stochastic: releasing a window twice gives two releases.
        space: what a search may try for each setting; empty where there is nothing to tune.
    """

    name: str
    stochastic: bool
    space: ClassVar[Mapping[str, Range]]

    def fit(self, train: Labelled, frozen: Frozen, effort: Effort) -> None:
        """Learn from training windows of patients in training."""

    def anonymize(self, data: Labelled, seed: int = 0) -> Floats:
        """Release windows: [n, leads, L], the shape of `data.x`.

        `seed` makes an experiment repeatable; a hospital that releases draws it in secret.
        """
