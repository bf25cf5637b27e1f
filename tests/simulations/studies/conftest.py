"""A pooled run as small as it can be, trained once for all studies."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from server.overrides import compose_settings
from server.run_directory import create_run
from simulations.studies.bench import pooled_run
from tests.small import STUDY


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, data = tmp_path_factory.mktemp("pooled"), tmp_path_factory.mktemp("data")
    settings = compose_settings(["training=pooled", *STUDY])
    create_run(folder, settings)
    pooled_run(folder, settings, data, lambda what: None)
    return folder, data


@pytest.fixture
def pooled(_trained: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    """A copy of the run, the test's own, and the folder of its windows."""
    shutil.copytree(_trained[0], tmp_path / "study")
    return tmp_path / "study", _trained[1]
