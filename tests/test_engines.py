"""The Ray engine gives the numbers of the in-process grid, and ends well when it is interrupted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from common.errors import InputError, UpdateError
from common.models.files import load_state
from common.protocol import STAGES
from server.overrides import compose_settings
from server.run_directory import create_run, open_run
from simulations.consortium import federate, prepare_sites, run
from tests.small import NETWORKS

pytest.importorskip("ray")
ROOT = Path(__file__).resolve().parents[1]
SMALL = [*NETWORKS, "audit.steps=1",
         *(f"{stage}.{key}=1" for stage in STAGES for key in ("rounds", "epochs"))]


def quiet(stage, number, rounds):
    pass


def prepared(folder, consortium, engine):
    names = ",".join(str(consortium / site / "hospital.yaml") for site in ("mitdb", "incartdb"))
    settings = compose_settings([*SMALL, f"hospitals=[{names}]", f"engine={engine}"])
    create_run(folder, settings)
    return settings, prepare_sites(settings, consortium.parent / "engines", quiet)[0]


def test_ray_gives_the_numbers_of_the_in_process_grid(consortium, tmp_path):
    """Models and audit bundles; the audit is a function of the bundles alone."""
    for engine in ("inprocess", "ray"):
        settings, sites = prepared(tmp_path / engine, consortium, engine)
        torch.set_num_threads(settings.threads)
        federate(tmp_path / engine, settings, sites, quiet)
    one, two = tmp_path / "inprocess", tmp_path / "ray"
    for stage in STAGES:
        expected = load_state(one / "models" / f"{stage}.safetensors")
        got = load_state(two / "models" / f"{stage}.safetensors")
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-6)
    files = sorted(path.relative_to(one) for path in (one / "bundles").rglob("*.npy"))
    assert len(files) == 2 * 13
    for file in files:
        expected, got = np.load(one / file), np.load(two / file)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
        else:
            assert np.array_equal(got, expected)


def test_what_the_server_raises_reaches_the_caller(consortium, tmp_path):
    settings, sites = prepared(tmp_path / "run", consortium, "ray")
    (tmp_path / "run" / "ledgers").mkdir()
    (tmp_path / "run" / "ledgers" / "mitdb.sqlite").write_text("not a ledger")
    (tmp_path / "run" / "ledgers" / "incartdb.sqlite").write_text("not a ledger")
    with pytest.raises(UpdateError, match="cannot be used; see the hospital"):
        federate(tmp_path / "run", settings, sites, quiet)
    assert "no ledger" in (tmp_path / "run" / "hospitals" / "mitdb" / "errors.log").read_text()


def test_ctrl_c_leaves_a_resumable_run_and_no_process(consortium, tmp_path):
    names = ",".join(str(consortium / site / "hospital.yaml") for site in ("mitdb", "incartdb"))
    run = tmp_path / "run"
    child = subprocess.Popen(
        [sys.executable, str(ROOT / "fedrean.py"), "simulate", *SMALL, f"hospitals=[{names}]",
         "engine=ray", "--run-dir", str(run), "--data-dir", str(consortium.parent / "engines")],
        cwd=tmp_path, env={**os.environ, "FEDREAN_TEST": str(run)}, start_new_session=True,
        # A suite that was started in the background of a script inherits an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 240
    while not (run / "checkpoints" / "diagnosis-1.safetensors").exists():
        assert child.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    output, _ = child.communicate(timeout=120)
    assert child.returncode == 130 and f"resume={run}" in output, output
    assert "Traceback" not in output, output
    for _ in range(100):
        if not (left := with_environment(f"FEDREAN_TEST={run}")):
            break
        time.sleep(0.1)
    assert not left
    settings, sites = open_run(run), prepared(tmp_path / "other", consortium, "ray")[1]
    federate(run, settings, sites, quiet)
    assert (run / "models" / "anonymizer.safetensors").exists()


def with_environment(variable):
    """Ids of processes that inherited a variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_a_simulation_refuses_the_deployment_engine(tmp_path):
    with pytest.raises(InputError, match="engine is 'grpc'; allowed in a simulation: inprocess"):
        run(tmp_path, compose_settings(["engine=grpc"]), tmp_path, quiet)


def test_leads_that_do_not_fit_are_named(consortium, tmp_path):
    file = consortium / "mitdb" / "hospital.yaml"
    settings = compose_settings([f"hospitals=[{file}]", "leads=2"])
    with pytest.raises(InputError, match="hospital mitdb has 1 leads a window; leads is 2"):
        prepare_sites(settings, tmp_path, quiet)
