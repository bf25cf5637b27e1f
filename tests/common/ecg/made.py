"""Hospital files and records that tests write."""

from __future__ import annotations

from pathlib import Path

GOOD = {
    "name": "a",
    "path": ".",
    "leads": "[[I]]",
    "subjects": "record",
    "demographics": "header",
    "labels": "none",
}


def write_hospital(folder: Path, **changes: str) -> Path:
    """A hospital file with some keys changed; an empty value drops the key."""
    file = folder / "hospital.yaml"
    values = {key: value for key, value in {**GOOD, **changes}.items() if value}
    file.write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    return file
