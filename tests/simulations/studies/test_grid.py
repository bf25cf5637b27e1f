"""Cells: what is swept, what is refused, and that one failing cell loses no other."""

import subprocess
import sys
import time

import pytest

from common.errors import InputError
from simulations.studies import grid
from simulations.studies.grid import plan, run_cells, slug, sweep, without_noise
from tests.small import STUDY


def quiet(line):
    pass


def jobs(*values):
    return {f"seed={value}": [*STUDY, f"seed={value}"] for value in values}


def started(script, seen=None):
    """A stand-in for a run: `script` gets the cell's folder."""
    def start(cell, data):
        cell.folder.mkdir(parents=True, exist_ok=True)
        if seen is not None:
            seen.append(cell.name)
        with (cell.folder / "log.txt").open("ab") as log:
            return subprocess.Popen([sys.executable, "-c", script, str(cell.folder)], stdout=log,
                                    stderr=log, start_new_session=True,
                                    preexec_fn=grid._hear_interruptions)
    return start


FINISH = "import sys, pathlib; (pathlib.Path(sys.argv[1]) / 'metrics.json').write_text('{}')"


def test_a_sweep_is_every_combination():
    assert sweep(["privacy=patient,window", "privacy.epsilon=1,inf", "hospitals=[a,b]"]) == [
        [f"privacy={unit}", f"privacy.epsilon={epsilon}", "hospitals=[a,b]"]
        for unit in ("patient", "window") for epsilon in ("1", "inf")]
    with pytest.raises(InputError, match="seed=range"):
        sweep(["seed=range(0,"])


def test_infinity_is_the_same_run_without_noise():
    assert without_noise(["privacy=patient", "privacy.epsilon=inf", "privacy.trust=aggregate",
                          "privacy.q=0.1", "seed=1"]) == [
        "privacy=none", "identity_by=embedding", "privacy.q=0.1", "seed=1"]
    assert without_noise(["privacy=window", "privacy.epsilon=inf"]) == ["privacy=none"]
    kept = ["privacy=patient", "privacy.epsilon=1"]
    assert without_noise(kept) == kept


def test_cells_that_compose_to_the_same_are_one_and_nonsense_is_named(tmp_path):
    cells, refused = plan(tmp_path, {
        "hospital": ["privacy=patient", "privacy.epsilon=inf", "privacy.trust=hospital"],
        "aggregate": ["privacy=patient", "privacy.epsilon=inf", "privacy.trust=aggregate"],
        "window": ["privacy=window", "privacy.trust=aggregate"]})
    assert [cell.name for cell in cells] == ["hospital"]
    assert len(refused) == 1 and refused[0].startswith("window: privacy.trust is 'aggregate'")
    with pytest.raises(InputError, match="privacy.epsilon is 0"):
        plan(tmp_path, {"only": ["privacy=patient", "privacy.epsilon=0"]})


def test_no_two_names_share_a_folder():
    long = ["x" * 90 + end for end in ("a", "b")]
    names = ["a b", "a_b", "a/b", *long]
    assert len({slug(name) for name in names}) == len(names) and slug("seed=1") == "seed=1"


def test_a_run_of_the_same_settings_is_taken_and_no_other_is_overwritten(tmp_path):
    cells, _ = plan(tmp_path, jobs(1))
    grid.create_run(cells[0].folder, cells[0].settings)
    renamed, _ = plan(tmp_path, {"another name": [*STUDY, "seed=1"]})
    assert renamed[0].folder == cells[0].folder and renamed[0].name == "another name"
    other, _ = plan(tmp_path, {"seed=1": [*STUDY, "seed=2"]})
    assert other[0].folder != cells[0].folder and other[0].folder.parent == cells[0].folder.parent


def test_a_failing_cell_loses_no_other_and_its_end_is_shown(tmp_path, monkeypatch):
    cells, _ = plan(tmp_path, jobs(1, 2, 3))
    script = f"import sys\nif sys.argv[1].endswith('2'): sys.exit('no memory')\n{FINISH}"
    monkeypatch.setattr(grid, "_start", started(script))
    told = []
    assert run_cells(cells, tmp_path, 2, told.append) == [cells[1]]
    assert [cell.finished for cell in cells] == [True, False, True]
    assert any("failed: seed=2\nno memory" in line for line in told)


def test_finished_cells_are_not_run_again(tmp_path, monkeypatch):
    cells, _ = plan(tmp_path, jobs(1, 2))
    seen = []
    monkeypatch.setattr(grid, "_start", started(FINISH, seen))
    cells[0].folder.mkdir(parents=True)
    (cells[0].folder / "metrics.json").write_text("{}")
    assert run_cells(cells, tmp_path, 1, quiet) == [] and seen == ["seed=2"]


def test_an_interruption_ends_what_runs(tmp_path, monkeypatch):
    cells, _ = plan(tmp_path, jobs(1, 2))
    processes = []
    sleep = started("import time; time.sleep(60)")

    def start(cell, data):
        processes.append(sleep(cell, data))
        return processes[-1]

    def interrupt(seconds):
        if len(processes) == 2:
            monkeypatch.undo()  # ending them may sleep
            raise KeyboardInterrupt

    monkeypatch.setattr(grid, "_start", start)
    monkeypatch.setattr(grid.time, "sleep", interrupt)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_cells(cells, tmp_path, 2, quiet)
    assert all(one.poll() is not None for one in processes) and time.monotonic() - begun < 30
