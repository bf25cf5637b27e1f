"""The real Flower processes on this host: TLS, registered keys, and the simulation's numbers."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

from common.models.files import load_state
from common.protocol import STAGES
from server.deployment import (
    ENVIRONMENT,
    connection_toml,
    make_certificates,
    make_node_key,
    register_command,
    run_command,
    superexec_command,
    superlink_command,
    supernode_command,
)
from server.overrides import compose_settings
from server.run_directory import create_run
from simulations.consortium import federate, prepare_sites
from tests.small import NETWORKS

ROOT = Path(__file__).resolve().parents[1]
SITES = ("mitdb", "incartdb")
SMALL = [*NETWORKS, *(f"{stage}.{key}=1" for stage in STAGES for key in ("rounds", "epochs"))]
LIMIT = 480  # s; the run took about 4 min on two cores shared with other work


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@pytest.fixture
def binaries():
    """Folder of Flower's programs; skips where they or loopback ports are missing."""
    folder = Path(sys.executable).parent
    for name in ("flwr", "flower-superlink", "flower-superexec", "flower-supernode"):
        if not shutil.which(name, path=str(folder)):
            pytest.skip(f"{name} is not in {folder}")
    try:
        free_ports(1)
    except OSError as error:
        pytest.skip(f"no loopback ports: {error}")
    return folder


class Processes:
    """Starts programs with one FLWR_HOME each, and ends all of them."""

    def __init__(self, folder, binaries):
        self.folder, self.binaries, self.running = folder, binaries, []

    def environment(self, home):
        path = self.folder / home
        path.mkdir(exist_ok=True)
        return {**os.environ, **ENVIRONMENT, "FLWR_HOME": str(path),
                "PATH": f"{self.binaries}{os.pathsep}{os.environ['PATH']}"}

    def start(self, name, home, command):
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running.append(subprocess.Popen(
                [str(self.binaries / command[0]), *command[1:]], cwd=self.folder, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, env=self.environment(home)))

    def call(self, home, command, timeout):
        done = subprocess.run([str(self.binaries / command[0]), *command[1:]], cwd=self.folder,
                              env=self.environment(home), capture_output=True, text=True,
                              timeout=timeout)
        return done.returncode, done.stdout + done.stderr

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}"
                         for path in sorted(self.folder.glob("*.log")))

    def stop(self):
        for process in self.running:
            try:
                os.killpg(process.pid, signal.SIGTERM)
            except ProcessLookupError:
                continue
        end = time.monotonic() + 10
        for process in self.running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, end - time.monotonic()))
        for process in self.running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


@contextmanager
def deployment(folder, binaries, consortium):
    """A SuperLink and two hospitals, running and registered."""
    certs, ca = folder / "certs", str(folder / "certs" / "ca.crt")
    make_certificates(certs)
    runtime, fleet, *nodes = free_ports(2 + len(SITES))
    processes = Processes(folder, binaries)
    try:
        processes.start("superlink", "server", superlink_command(
            str(certs), str(folder / "state.db"), "127.0.0.1", runtime, fleet))
        wait_for_port(runtime)
        wait_for_port(fleet)
        address = f"127.0.0.1:{runtime}"
        processes.start("serverexec", "server", superexec_command(address, ca))
        (folder / "operator").mkdir()
        (folder / "operator" / "config.toml").write_text(connection_toml("test", address, ca))
        for site, port in zip(SITES, nodes, strict=True):
            key = folder / "keys" / site
            make_node_key(key)
            code, output = processes.call("operator", register_command(f"{key}.pub", "test"), 60)
            assert code == 0, output
            (folder / site / "ledger").mkdir(parents=True)
            config = {"site": site, "data": str(consortium / site / "hospital.yaml"),
                      "state": str(folder / site / "state"),
                      "ledger": str(folder / site / "ledger" / "ledger.sqlite"), "export": ""}
            processes.start(f"node-{site}", site, supernode_command(
                f"127.0.0.1:{fleet}", ca, str(key), config, port))
            wait_for_port(port)
            processes.start(f"exec-{site}", site, superexec_command(f"127.0.0.1:{port}"))
        yield processes
    finally:
        processes.stop()


def wait_for_port(port, limit=60):
    end = time.monotonic() + limit
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"port {port} is closed after {limit} s"
            time.sleep(0.1)


def wait_for_file(path, processes):
    end = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < end, processes.logs()
        time.sleep(0.2)


def test_a_deployment_gives_the_numbers_of_the_simulation(consortium, tmp_path, binaries):
    folder = tmp_path / "deployment"
    folder.mkdir()
    with deployment(folder, binaries, consortium) as processes:
        code, output = processes.call("operator", run_command(str(ROOT), "test", {
            "overrides": " ".join(SMALL), "hospitals": len(SITES), "wait": 60,
            "folder": str(folder / "run")}), LIMIT)
        assert code == 0 and "release 1/1" in output, output + processes.logs()
    names = ",".join(str(consortium / site / "hospital.yaml") for site in SITES)
    settings = compose_settings([*SMALL, f"hospitals=[{names}]"])
    create_run(tmp_path / "one", settings)
    torch.set_num_threads(settings.threads)
    sites, _ = prepare_sites(settings, tmp_path / "data", lambda *_: None)
    federate(tmp_path / "one", settings, sites, lambda *_: None)
    for stage in STAGES:
        expected = load_state(tmp_path / "one" / "models" / f"{stage}.safetensors")
        got = load_state(folder / "run" / "models" / f"{stage}.safetensors")
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)
    for site in SITES:
        assert list((folder / site / "state").glob("run-*/release/RECORDS"))
        assert (folder / site / "ledger" / "ledger.sqlite").exists()
