"""What a hospital's folder holds, in plain facts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from common.audits.utility import decided
from common.ecg.hospital_file import load_hospital
from common.ecg.store import summary
from common.ecg.windows import WindowSettings, prepare
from common.protocol import ARRHYTHMIA_CLASSES


def describe_hospital(file: Path, data: Path) -> dict[str, Any]:
    """Patients, hours, windows per class, and what was left out, of one hospital file.

    Windows are the paper's: 8 s at 250 Hz.

    Raises:
        InputError: the file is wrong, or fewer than two patients have usable windows.
    """
    store = prepare(load_hospital(file), data / "stores", WindowSettings(250, 8.0, 0.15, 0))
    index, info = store.index, store.info
    people = summary(index)
    return {
        "name": info["name"],
        "patients": len(np.unique(index["patient"])),
        "sex": people["sex"],
        "age": people["age"],
        "records": len(info["records"]),
        "leads": info["leads"],
        "hours": round(info["hours"], 3),
        "windows": len(index),
        "windows_strict": _classes(decided(store.labels("strict"))),
        "windows_paper": _classes(decided(store.labels("paper"))),
        "windows_skipped": info["skipped"],
        "records_left_out": dict(info["left_out"]),
        "records_uncalibrated": info["uncalibrated"],
    }


def _classes(classes: np.ndarray[Any, Any]) -> dict[str, int]:
    counts = {name: int(np.sum(classes == i)) for i, name in enumerate(ARRHYTHMIA_CLASSES)}
    return {**counts, "undecided": int(np.sum(classes < 0))}


def describe_rows(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The facts as rows of two cells, one line for each class, band or record."""
    groups = {
        "sex": "sex, patients", "age": "age in years, patients",
        "windows_strict": "windows, labels=strict", "windows_paper": "windows, labels=paper",
        "windows_skipped": "windows skipped", "records_left_out": "records left out",
    }  # fmt: skip
    for key, value in facts.items():
        name = groups.get(key, key.replace("_", " "))
        if isinstance(value, dict):
            yield name, str(sum(value.values())) if key != "records_left_out" else str(len(value))
            yield from ((f"  {part}", _reason(part, text)) for part, text in value.items())
        elif isinstance(value, list):
            yield name, "; ".join(value)
        elif key != "name":
            yield name, f"{value:g}" if isinstance(value, float) else str(value)


def _reason(part: str, text: Any) -> str:
    """The cell beside a part; a record's reason without its name, which stands beside it."""
    return str(text).removeprefix(f"record {part}: ")
