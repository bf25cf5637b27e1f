"""Pooling: the stores of several hospitals as one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.ecg.beats import join
from common.ecg.store import CHUNK, FORMAT, Store, build_store, finish_store
from common.errors import InputError


def pool(stores: Sequence[Store], directory: Path) -> Store:
    """Concatenate stores into one named "pooled"; patients and records become `site/name`.

    Raises:
        InputError: no store, two of one name, or windows of different shape.
    """
    names = [str(store.info["name"]) for store in stores]
    shapes = {(store.info["sampling_rate"], *store.windows.shape[1:]) for store in stores}
    if not stores or len(set(names)) != len(names):
        raise InputError(f"stores are {names}; allowed is one or more, each name once")
    if len(shapes) != 1:
        raise InputError(f"windows of {names} have (Hz, leads, samples) {sorted(shapes)}; "
                         "allowed is one shape")  # fmt: skip
    folders = [str(store.path.resolve()) for store in stores]
    key = hashlib.sha256(repr((FORMAT, folders)).encode()).hexdigest()[:12]
    target = Path(directory) / f"pooled-{key}"
    index, info = merge(stores)

    def fill(partial: Path) -> None:
        parts = [partial / f"{i}.part" for i in range(len(stores))]
        for store, part in zip(stores, parts, strict=True):
            step = max(1, CHUNK // (4 * store.windows[0].size))
            with part.open("wb") as out:
                for first in range(0, len(store.windows), step):
                    store.windows[first : first + step].tofile(out)
        finish_store(partial, index, info, parts, stores[0].windows.shape[1:],
                     join([store.beats() for store in stores]))

    return build_store(target, fill)


def merge(stores: Sequence[Store]) -> tuple[NDArray[Any], dict[str, Any]]:
    """The index rows of several stores as one, and what they say of themselves, added up."""
    names = [str(store.info["name"]) for store in stores]
    index = np.concatenate([store.index for store in stores])
    info = {**stores[0].info, "name": "pooled", "patients": [], "records": [], "left_out": [],
            "ages": {}}
    first = 0
    for store, name in zip(stores, names, strict=True):
        rows = slice(first, first := first + len(store.index))
        for key, column in (("patients", "patient"), ("records", "record")):
            index[column][rows] += len(info[key])
            info[key] += [f"{name}/{item}" for item in store.info[key]]
        info["left_out"] += [[f"{name}/{r}", why] for r, why in store.info["left_out"]]
        info["ages"] |= {f"{name}/{p}": age for p, age in store.info["ages"].items()}
    for key in ("hours", "recorded_hours", "uncalibrated"):
        info[key] = sum(store.info[key] for store in stores)
    for key in ("skipped", "bad_seconds", "records_by_leads"):
        counts: Counter[str] = Counter()
        for store in stores:
            counts.update(store.info[key])
        info[key] = dict(counts)
    info["leads"] = list(dict.fromkeys("; ".join(s.info["leads"]) for s in stores))
    return index, info
