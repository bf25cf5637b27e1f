"""Preparing as a long job: interrupted, repeated, raced, and never from a stale store."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.ecg import workers
from common.ecg.cutting import Cut, WindowSettings
from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.store import Store
from common.ecg.windows import prepare

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = WindowSettings(100, 8.0, 0.15, 0)


@pytest.fixture
def mitdb(consortium: Path, tmp_path: Path) -> HospitalFile:
    """A copy that a test may change: records 100, 102, 201 and 202."""
    shutil.copytree(consortium / "mitdb", tmp_path / "mitdb")
    return load_hospital(tmp_path / "mitdb" / "hospital.yaml")


def contents(store: Store) -> tuple[bytes, bytes, object]:
    return store.windows.tobytes(), store.index.tobytes(), store.info


def count_cuts(monkeypatch: pytest.MonkeyPatch, stop_at: str = "") -> list[str]:
    """Records that are really cut from now on; an interrupt comes before `stop_at`."""
    cut, seen = workers.cut_record, []

    def counted(hospital: HospitalFile, record: str, *rest: Any) -> Cut:
        if record == stop_at:
            raise KeyboardInterrupt
        seen.append(record)
        return cut(hospital, record, *rest)

    monkeypatch.setattr(workers, "cut_record", counted)
    return seen


def test_an_interrupted_call_is_taken_up(mitdb: HospitalFile, tmp_path: Path,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prepare(mitdb, tmp_path / "whole", SETTINGS)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        count_cuts(patch, stop_at="201")
        prepare(mitdb, tmp_path / "s", SETTINGS)
    assert not list((tmp_path / "s").glob("mitdb-*"))
    [left] = (tmp_path / "s").glob(".mitdb-*.partial")
    (left / "1.part").write_bytes(b"half")  # a part that was cut short is not believed
    seen = count_cuts(monkeypatch)
    assert contents(prepare(mitdb, tmp_path / "s", SETTINGS)) == contents(whole)
    assert seen == ["102", "201", "202"] and not left.exists()


def test_an_interruption_while_parts_are_joined(mitdb: HospitalFile, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prepare(mitdb, tmp_path / "whole", SETTINGS)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        unlink = Path.unlink

        def interrupted(path: Path, *rest: Any) -> None:
            unlink(path, *rest)
            if path.name == "1.part":
                raise KeyboardInterrupt

        patch.setattr(Path, "unlink", interrupted)
        prepare(mitdb, tmp_path / "s", SETTINGS)
    seen = count_cuts(monkeypatch)
    assert contents(prepare(mitdb, tmp_path / "s", SETTINGS)) == contents(whole)
    assert seen == ["100", "102"]


CODE = """
import sys, time
from pathlib import Path
from common.ecg import workers
from common.ecg.cutting import WindowSettings
from common.ecg.hospital_file import load_hospital
from common.ecg.windows import prepare
cut = workers.cut_record
def slow(hospital, record, *rest):
    if record == "201" and sys.argv[3] == "stall":
        time.sleep(600)
    return cut(hospital, record, *rest)
workers.cut_record = slow
store = prepare(load_hospital(Path(sys.argv[1])), Path(sys.argv[2]),
                WindowSettings(100, 8.0, 0.15, 0), workers=2)
print(store.path.name)
"""


def start(mitdb: HospitalFile, folder: Path, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CODE, str(mitdb.file), str(folder), how],
                            stdout=subprocess.PIPE, text=True, cwd=ROOT)


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def test_a_killed_process_leaves_its_records_and_no_worker(mitdb: HospitalFile,
                                                           tmp_path: Path) -> None:
    whole = prepare(mitdb, tmp_path / "whole", SETTINGS)
    process = start(mitdb, tmp_path / "s", "stall")
    wait_for(lambda: len(list((tmp_path / "s").glob(".*/*.npz"))) == 3)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(children) == 2
    wait_for(lambda: not any(alive(int(child)) for child in children))
    assert contents(prepare(mitdb, tmp_path / "s", SETTINGS)) == contents(whole)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"  # a dead process that nobody waited for


def test_two_processes_make_one_store(mitdb: HospitalFile, tmp_path: Path) -> None:
    processes = [start(mitdb, tmp_path / "s", "at once") for _ in range(2)]
    names = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert names[0] == names[1] and all(process.returncode == 0 for process in processes)
    assert [path.name for path in (tmp_path / "s").glob("*mitdb*")] == [names[0]]


def test_a_changed_byte_is_noticed_whatever_the_clock_says(mitdb: HospitalFile,
                                                           tmp_path: Path) -> None:
    first = prepare(mitdb, tmp_path / "s", SETTINGS)
    file = mitdb.path / "100.atr"
    stat, data = file.stat(), bytearray(file.read_bytes())
    data[1] ^= 4
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert prepare(mitdb, tmp_path / "s", SETTINGS).path != first.path


@pytest.mark.parametrize("change", [{"sampling_rate": 125}, {"seconds": 4.0}, {"reserved": 0.4},
                                    {"seed": 1}])
def test_a_changed_setting_gives_another_store(mitdb: HospitalFile, tmp_path: Path,
                                               change: dict[str, Any]) -> None:
    first = prepare(mitdb, tmp_path / "s", SETTINGS)
    assert prepare(mitdb, tmp_path / "s", replace(SETTINGS, **change)).path != first.path


def test_a_changed_hospital_file_gives_another_store(mitdb: HospitalFile, tmp_path: Path) -> None:
    first = prepare(mitdb, tmp_path / "s", SETTINGS)
    changed = replace(mitdb, leads=(("V5",),))
    assert prepare(changed, tmp_path / "s", SETTINGS).path != first.path


def test_a_moved_or_touched_folder_is_the_same(mitdb: HospitalFile, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(mitdb, tmp_path / "s", SETTINGS)
    shutil.move(mitdb.path, tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "notes.txt").write_text("not a record")
    (tmp_path / "elsewhere" / "100.dat").touch()
    seen = count_cuts(monkeypatch)
    moved = load_hospital(tmp_path / "elsewhere" / "hospital.yaml")
    assert prepare(moved, tmp_path / "s", SETTINGS).path == first.path and not seen


def test_a_digest_file_that_is_damaged_is_made_again(mitdb: HospitalFile, tmp_path: Path) -> None:
    first = prepare(mitdb, tmp_path / "s", SETTINGS)
    (tmp_path / "s" / "digests.json").write_text("{")
    assert prepare(mitdb, tmp_path / "s", SETTINGS).path == first.path
