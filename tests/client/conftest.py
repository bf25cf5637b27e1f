"""Where the tests' ledger and its head lie."""

from pathlib import Path

import pytest


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "ledger.sqlite", tmp_path / "elsewhere" / "head"
