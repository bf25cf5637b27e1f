"""What `data describe` says of hospitals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import fedrean
from common.ecg.hospital_file import load_hospital
from common.ecg.windows import Store, WindowSettings, prepare
from simulations.describe import describe, lines, table

SETTINGS = WindowSettings(100, 8.0, 0.15, 0)


@pytest.fixture(scope="module")
def stores(consortium: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Store]:
    folder = tmp_path_factory.mktemp("stores")
    return [prepare(load_hospital(consortium / name / "hospital.yaml"), folder, SETTINGS)
            for name in ("mitdb", "shdb-af")]


def test_facts_add_up(stores: list[Store]) -> None:
    found = describe(stores)
    facts = found["hospitals"]["mitdb"]
    assert facts["patients"] == 3 and facts["records"] == 4
    assert facts["records_by_leads"] == {"MLII": 3, "V5": 1}
    assert sum(facts["sex"].values()) == sum(facts["age"].values()) == 3
    assert facts["ages"]["known"] == 3 and 20 < facts["ages"]["youngest"] < 95
    for mode in ("windows_strict", "windows_paper"):
        assert sum(facts[mode].values()) == facts["windows"]
    assert facts["windows_paper"]["undecided"] == 0 and facts["windows_paper"]["AFIB"] > 0
    assert facts["hours"] == round(facts["windows"] * 8 / 3600, 3)
    assert facts["recorded_hours"] == pytest.approx(4 * 3 / 60, abs=0.001)
    for key in ("patients", "records", "windows", "reserved_patients"):
        assert found["all"][key] == sum(one[key] for one in found["hospitals"].values())


def test_the_table_and_what_stands_below(stores: list[Store]) -> None:
    found = describe(stores)
    header, rows = table(found)
    assert header[:4] == ["", "mitdb", "shdb-af", "all"] and {len(row) for row in rows} == {5}
    cells = {row[0]: row[1:] for row in rows}
    assert cells["patients"] == ["3", "3", "6", "186"]
    assert cells["men / women / unknown"][3] == "103 / 83 / 0"
    windows = [int(cell) for cell in cells["windows"][:3]]
    normal = [int(cell.split()[0]) for cell in cells["  Normal, labels=paper"][:3]]
    assert (cells["windows"][3], cells["  AFIB, labels=paper"][3]) == ("1,163,983", "19.0 %")
    assert cells["  Normal, labels=paper"][2].endswith(f"({100 * normal[2] / windows[2]:.1f} %)")
    below = "\n".join(lines(found))
    assert "shdb-af in the REAN paper: 100 patients, 55 men, 45 women, 31 to 87 years" in below
    assert "shared 500, labels=paper: " in below and "mitdb left out" not in below
    assert "all" not in describe(stores[:1])


def test_the_commands(consortium: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                      capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["fedrean", "data", *words, "--data-dir", str(tmp_path),
                                          "--sampling-rate", "100", "--json"])
        with pytest.raises(SystemExit) as left:
            fedrean.main()
        assert left.value.code == 0
        return capsys.readouterr().out

    [made] = json.loads(run("prepare", str(consortium / "mitdb")))
    store = Store.open(Path(made["store"]))
    assert made["windows"] == len(store.windows) and made["bytes"] > store.windows.nbytes
    stamp = store.path.stat().st_mtime_ns
    facts = json.loads(run("describe", str(consortium / "mitdb" / "hospital.yaml")))
    assert facts["hospitals"]["mitdb"]["windows"] == made["windows"]
    assert [path.name for path in (tmp_path / "stores").glob("mitdb-*")] == [store.path.name]
    assert store.path.stat().st_mtime_ns == stamp
