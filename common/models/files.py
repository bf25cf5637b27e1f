"""Model files: safetensors, written atomically."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor


def save_state(path: Path, state: Mapping[str, Tensor], card: Mapping[str, str]) -> None:
    """Write weights and a small card (name, profile, run) to one safetensors file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    save_file({k: v.contiguous() for k, v in state.items()}, temporary, metadata=dict(card))
    temporary.replace(path)


def load_state(path: Path) -> dict[str, Tensor]:
    """Read weights that save_state wrote."""
    return load_file(path)
