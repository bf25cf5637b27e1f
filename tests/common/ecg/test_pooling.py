"""Several stores as one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.ecg.hospital_file import load_hospital
from common.ecg.windows import WindowSettings, pool, prepare
from common.errors import InputError

SETTINGS = WindowSettings(sampling_rate=100, seconds=8.0, reserved=0.15, seed=0)


def test_pooling(consortium: Path, tmp_path: Path) -> None:
    files = [load_hospital(consortium / n / "hospital.yaml") for n in ("mitdb", "shdb-af")]
    stores = [prepare(file, tmp_path, SETTINGS) for file in files]
    pooled = pool(stores, tmp_path)
    n = len(stores[0].windows)
    assert np.array_equal(pooled.windows[:n], stores[0].windows)
    assert np.array_equal(pooled.windows[n:], stores[1].windows)
    assert pooled.info["name"] == "pooled" and len(pooled.info["patients"]) == 6
    names = [pooled.info["patients"][i] for i in pooled.index["patient"][[0, n]]]
    assert names == ["mitdb/100", "shdb-af/1"]
    assert pooled.info["records"][pooled.index["record"][n]] == "shdb-af/001"
    assert pool(stores, tmp_path).path == pooled.path
    with pytest.raises(InputError, match="once"):
        pool([stores[0], stores[0]], tmp_path)
