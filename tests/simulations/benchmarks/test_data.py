"""The data benchmarks run, small, and clean up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.ecg.hospital_file import load_hospital
from common.ecg.store import Store
from common.ecg.windows import WindowSettings
from common.errors import InputError
from simulations.benchmarks import prepare, store


def test_store_benchmark(tmp_path: Path) -> None:
    path = store.write(tmp_path / "store", 5000)
    assert sorted(file.name for file in path.iterdir()) == [
        "beats.npz", "index.npy", "store.json", "windows.npy"
    ]  # fmt: skip
    windows = Store.open(path).windows
    assert windows.shape == (5000, 1, 2000) and np.array_equal(windows[0], windows[4096])
    found = store.measure(path, batches=3, batch=8, repeats=1)
    assert found["bytes"] > 40e6 and found["open"] < 1 and found["store"] > 0
    trained = store.train_on(path, tmp_path, batches=2, batch=8)
    assert trained["fetched"] > 0 and trained["model"] > 0 and trained["anonymous"] > 1e6
    with pytest.raises(InputError, match="windows is 10000000000, .* GB that are free"):
        store.write(tmp_path / "large", 10**10)


def test_prepare_benchmark(consortium: Path, tmp_path: Path) -> None:
    hospital = load_hospital(consortium / "mitdb" / "hospital.yaml")
    settings = WindowSettings(100, 8.0, 0.15, 0)
    taken = prepare.measure([hospital], settings, tmp_path / "stores", repeats=1)
    assert list(taken) == ["bare loop", "prepare, 1 worker", "prepare, 2 workers"]
    assert all(wall > 0 for [(wall, _, _)] in taken.values())
    [one], [two] = taken["prepare, 1 worker"], taken["prepare, 2 workers"]
    assert one[2] == 0 < two[2]  # CPU time of workers
    prepare.show(taken)
