"""compose.yaml runs the commands of the loopback test, and no hospital sees another's things."""

from pathlib import Path

import pytest
import yaml

from server.deployment import (
    ENVIRONMENT,
    make_folder,
    register_script,
    superexec_command,
    superlink_command,
    supernode_command,
)

ROOT = Path(__file__).resolve().parents[1]
SITES = ("mitdb", "ltdb", "incartdb", "shdb-af")
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]


def mounts(name):
    """Container path -> (host path, read-only)."""
    parts = [volume.split(":") for volume in SERVICES[name]["volumes"]]
    return {part[1]: (part[0], part[2:] == ["ro"]) for part in parts}


def test_the_servers_commands_are_those_of_the_loopback_test():
    assert SERVICES["superlink"]["command"] == superlink_command("/certs", "/state/superlink.db")
    assert SERVICES["superlink-exec"]["command"] == superexec_command("superlink:8000",
                                                                      "/certs/ca.crt")
    script = register_script([f"/keys/{site}.pub" for site in SITES], "superlink",
                             "/operator/config.toml")
    assert SERVICES["register"]["command"] == ["sh", "-c", script.replace("$", "$$")]


@pytest.mark.parametrize("site", SITES)
def test_a_hospitals_commands_are_those_of_the_loopback_test(site):
    config = {"site": site, "data": "/data/hospital.yaml", "state": "/state",
              "ledger": "/ledger/ledger.sqlite", "export": ""}
    assert SERVICES[site]["command"] == supernode_command("superlink:9092", "/certs/ca.crt",
                                                          "/keys/node", config)
    assert SERVICES[f"{site}-exec"]["command"] == superexec_command("127.0.0.1:9094")


@pytest.mark.parametrize("site", SITES)
def test_a_hospital_mounts_only_its_own_things(site):
    assert mounts(f"{site}-exec") == {
        "/data": (f"./deploy/data/{site}", True),
        "/state": (f"./deploy/hospitals/{site}/state", False),
        "/ledger": (f"./deploy/hospitals/{site}/ledger", False)}
    assert mounts(site) == {"/certs/ca.crt": ("./deploy/certs/ca.crt", True),
                            "/keys/node": (f"./deploy/keys/{site}", True)}
    assert SERVICES[site]["networks"] == [site]
    assert SERVICES[f"{site}-exec"]["network_mode"] == f"service:{site}"


def test_nothing_else_mounts_data_ledgers_or_private_keys():
    hospitals = {*SITES, *(f"{site}-exec" for site in SITES)}
    others = [host for name in SERVICES if name not in hospitals for host, _ in
              mounts(name).values()]
    for host in others:
        assert not host.startswith(("./deploy/data", "./deploy/hospitals"))
        assert not host.startswith("./deploy/keys") or host.endswith(".pub")
    assert {name for name in SERVICES if "/certs" in mounts(name)} == {"superlink"}


def test_the_image_holds_code_and_no_secret():
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = [word for line in dockerfile.splitlines() if line.startswith("COPY")
              for word in line.split()[1:-1]]
    allowed = {"pyproject.toml", "README.md", "LICENSE", "fedrean.py", "common", "client",
               "server", "simulations"}
    assert set(copied) == allowed
    ignore = (ROOT / ".dockerignore").read_text().split()
    assert ignore[0] == "*" and {line[1:] for line in ignore if line[0] == "!"} == allowed
    assert "deploy/" in (ROOT / ".gitignore").read_text().split()
    for name, value in ENVIRONMENT.items():
        assert f"{name}={value}" in dockerfile
    assert "USER 1000" in dockerfile


def test_everything_that_is_mounted_is_made(tmp_path):
    make_folder(tmp_path / "deploy", SITES)
    for name in SERVICES:
        for host, _ in mounts(name).values():
            if not host.startswith("./deploy/data/"):
                assert (tmp_path / host).exists(), host
    for secret in ("certs/server.key", "keys/mitdb"):
        assert (tmp_path / "deploy" / secret).stat().st_mode & 0o077 == 0
