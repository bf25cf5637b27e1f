"""The laboratory of hostile files, which its tests share."""

from __future__ import annotations

import pytest

from tests.common.ecg.laboratory import Laboratory


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return Laboratory(tmp_path_factory.mktemp("fuzz").resolve())
