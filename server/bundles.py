"""Audit bundles of all hospitals as one set of arrays: all that the auditor ever sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.ecg.beats import Beats, join
from common.errors import InputError
from common.protocol import PARTS
from common.results import read_json

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Bundles:
    """Arrays over all windows of all hospitals; patients and records numbered across hospitals.

    Attributes:
        clean, released: float32 [n, leads, L].
        patient, record, hospital, part, sex, age, slot: [n] (-1 where unknown or reserved).
        start: s, [n].
        allowed: label masks, [n].
        reserved: [n].
        frozen: per stage and version, one score matrix a hospital (identity heads differ in size).
        info: bundle.json of each hospital.
        day: of each window's record, days from any origin, [n], -1 where unknown; None in a run:
            hospitals export no dates.
        beats: as annotated; None where nothing is known of any.
    """

    clean: NDArray[np.float32]
    released: NDArray[np.float32]
    patient: Ints
    record: Ints
    hospital: Ints
    part: Ints
    sex: Ints
    age: Ints
    slot: Ints
    start: NDArray[np.float64]
    allowed: NDArray[np.uint8]
    reserved: NDArray[np.bool_]
    frozen: dict[str, list[NDArray[np.float32]]]
    info: list[dict[str, Any]]
    day: Ints | None = None
    beats: Beats | None = None

    def rows(self, part: str) -> Ints:
        """Rows of a temporal part, all patients."""
        return np.flatnonzero(self.part == PARTS.index(part))

    def released_rows(self, part: str) -> Ints:
        """Rows of a temporal part that were released: all in a run, perhaps fewer in a folder."""
        rows = self.rows(part)
        return np.asarray(rows[~np.isnan(self.released[rows, 0, 0])])

    def of_released(self) -> Bundles:
        """The same, with the windows that were not released (NaN) in no part."""
        missing = np.isnan(self.released[:, 0, 0])
        return replace(self, part=np.where(missing, -1, self.part))


def load_bundles(folder: Path) -> Bundles:
    """Read every hospital's bundle, in the order of their names.

    Raises:
        InputError: there is none.
    """
    sites = sorted(file.parent for file in folder.glob("*/bundle.json"))
    if not sites:
        raise InputError(f"{folder} holds 0 audit bundles; at least 1 is needed")
    index = [np.load(site / "index.npy") for site in sites]
    info = [read_json(site / "bundle.json") for site in sites]

    def stacked(name: str) -> NDArray[Any]:
        return np.concatenate([np.load(site / f"{name}.npy") for site in sites])

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([one[name] for one in index])

    def numbered(name: str, total: str) -> Ints:
        sizes = [len(one["data"][total]) for one in info]
        shifts = np.cumsum([0, *sizes[:-1]])
        return np.concatenate([one[name].astype(np.int64) + shift
                               for one, shift in zip(index, shifts, strict=True)])

    frozen = {f"{stage}-{version}": [np.load(s / f"frozen-{stage}-{version}.npy") for s in sites]
              for stage in ("diagnosis", "identity", "sex", "age")
              for version in ("clean", "released")}
    return Bundles(
        stacked("clean"), stacked("released"), numbered("patient", "patients"),
        numbered("record", "records"),
        np.repeat(np.arange(len(sites)), [len(one) for one in index]),
        column("part").astype(np.int64), column("sex").astype(np.int64),
        column("age").astype(np.int64), stacked("slot"), column("start"), stacked("allowed"),
        column("reserved"), frozen, info, beats=_beats(sites))


def _beats(sites: list[Path]) -> Beats | None:
    """Annotated beats of all hospitals; None where a bundle has none, as of older runs."""
    files = [site / "beats.npz" for site in sites]
    if not all(file.exists() for file in files):
        return None
    saved = [np.load(file) for file in files]
    found = join([Beats(one["first"], one["time"], one["kind"]) for one in saved])
    return found if len(found.time) else None
