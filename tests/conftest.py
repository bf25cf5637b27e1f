"""Fixtures that several tests share: a small synthetic consortium and the real records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported

import torch  # noqa: E402

from common.ecg.synthetic import CohortSettings, write_consortium  # noqa: E402

torch.set_num_threads(1)  # networks here are too small to gain by two, and results would differ


@pytest.fixture(scope="session")
def consortium(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hospitals of 3 patients and 3 min; read only."""
    folder = tmp_path_factory.mktemp("consortium")
    write_consortium(folder, CohortSettings(patients=3, minutes=3))
    return folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of the real records; skips where they are not."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "mitdb").is_dir():
        pytest.skip(f"no real records in {folder}")
    return folder
