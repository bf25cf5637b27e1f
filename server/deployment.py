"""What a deployment runs: the exact command lines, and the certificates and keys they need.

Checked on flwr 1.39.0, the last release whose nodes speak gRPC.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

RUNTIME_PORT = 8000  # the SuperLink's, for its SuperExec and for `flwr`
FLEET_PORT = 9092  # the SuperLink's, for hospitals
NODE_PORT = 9094  # a SuperNode's, for its own SuperExec

ENVIRONMENT = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",  # else a run pulls packages
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin starve the other hospitals of this host
}


def superlink_command(certs: str, database: str, host: str = "0.0.0.0",
                      runtime_port: int = RUNTIME_PORT,
                      fleet_port: int = FLEET_PORT) -> list[str]:
    """The server's gateway: TLS, and only hospitals whose key is registered.

    Args:
        certs: folder of ca.crt, server.pem and server.key.
        database: SQLite file that lets a run outlive a restart.
        host: address to listen on.
        runtime_port, fleet_port: for the operator and SuperExec, and for hospitals.
    """
    return ["flower-superlink", "--ssl-ca-certfile", f"{certs}/ca.crt",
            "--ssl-certfile", f"{certs}/server.pem", "--ssl-keyfile", f"{certs}/server.key",
            "--host", host, "--port", str(runtime_port),
            "--fleet-api-address", f"{host}:{fleet_port}", "--enable-supernode-auth",
            "--isolation", "process", "--disable-runtime-dependency-installation",
            "--database", database]


def superexec_command(address: str, ca: str = "") -> list[str]:
    """Starts the app's processes: the server's over TLS, a hospital's beside its SuperNode.

    Args:
        address: host:port of the SuperLink's or SuperNode's runtime.
        ca: CA certificate (PEM); empty for a SuperNode, whose runtime is on 127.0.0.1.
    """
    trust = ["--root-certificates", ca] if ca else ["--insecure"]
    return ["flower-superexec", *trust, "--runtime-api-address", address]


def supernode_command(superlink: str, ca: str, key: str, config: Mapping[str, str],
                      port: int = NODE_PORT) -> list[str]:
    """A hospital's gateway.

    Args:
        superlink: host:port that hospitals connect to.
        ca: CA certificate (PEM).
        key: the hospital's private key.
        config: its own settings, the only source of paths; see client/node.py.
        port: its runtime on 127.0.0.1, since whoever reaches it may take the hospital's messages.
    """
    return ["flower-supernode", "--root-certificates", ca, "--auth-supernode-private-key", key,
            "--superlink", superlink, "--isolation", "process",
            "--host", "127.0.0.1", "--port", str(port),
            "--node-config", " ".join(f'{name}="{value}"' for name, value in config.items())]


def register_command(public_key: str, connection: str) -> list[str]:
    """Let a hospital's key in; before its node starts."""
    return ["flwr", "supernode", "register", public_key, connection]


def register_script(public_keys: Sequence[str], connection: str, config: str) -> str:
    """Shell text that registers keys as the connection file `config` says; fit to run again."""
    lines = ["set -e", 'mkdir -p "$FLWR_HOME"', f'cp {config} "$FLWR_HOME/config.toml"']
    for key in public_keys:
        command = " ".join(register_command(key, connection))
        lines.append(f'said=$({command} 2>&1) || echo "$said" | grep -q "already in use" '
                     '|| { echo "$said"; exit 1; }')
    return "\n".join(lines) + "\n"


def run_command(app: str, connection: str, config: Mapping[str, str | int]) -> list[str]:
    """Start a run of the app in a folder and follow its log."""
    values = " ".join(f'{k}="{v}"' if isinstance(v, str) else f"{k}={v}"
                      for k, v in config.items())
    return ["flwr", "run", app, connection, "--run-config", values, "--stream"]


def connection_toml(name: str, address: str, ca: str) -> str:
    """Text of `$FLWR_HOME/config.toml`: how `flwr` reaches the SuperLink."""
    return (f'[superlink]\ndefault = "{name}"\n\n[superlink.{name}]\n'
            f'address = "{address}"\nroot-certificates = "{ca}"\n')


def make_folder(folder: Path, sites: Sequence[str]) -> None:
    """Write all that compose.yaml mounts, but for the hospitals' data.

    On one host this holds every key; in earnest each hospital makes its own and sends the .pub.
    """
    make_certificates(folder / "certs")
    for site in sites:
        make_node_key(folder / "keys" / site)
        for part in ("state", "ledger"):
            (folder / "hospitals" / site / part).mkdir(parents=True, exist_ok=True)
    for part in ("operator", "superlink", "runs"):
        (folder / part).mkdir(exist_ok=True)
    (folder / "operator" / "config.toml").write_text(
        connection_toml("superlink", f"superlink:{RUNTIME_PORT}", "/certs/ca.crt"))


def make_certificates(folder: Path, names: Sequence[str] = ("superlink", "localhost"),
                      days: int = 365) -> None:
    """Write ca.crt, server.pem and server.key for a SuperLink of these DNS names and 127.0.0.1.

    The CA's own key is thrown away: a new server certificate needs a new CA.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca_key, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedrean CA")])
    ca = (_builder(ca_name, ca_name, ca_key, days)
          .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
          .sign(ca_key, hashes.SHA384()))
    alternatives = [*map(x509.DNSName, names),
                    x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    server = (_builder(subject, ca_name, key, days)
              .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
              .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
              .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
                             critical=False)
              .sign(ca_key, hashes.SHA384()))
    (folder / "ca.crt").write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(server.public_bytes(serialization.Encoding.PEM))
    _write_secret(folder / "server.key", key, serialization.PrivateFormat.PKCS8)


def make_node_key(path: Path) -> None:
    """Write a hospital's EC P-384 key pair in OpenSSH format: `path` and `path`.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_secret(path, key, serialization.PrivateFormat.OpenSSH)
    path.with_name(path.name + ".pub").write_bytes(key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey,
             days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (x509.CertificateBuilder().subject_name(subject).issuer_name(issuer)
            .public_key(key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=days)))


def _write_secret(path: Path, key: ec.EllipticCurvePrivateKey,
                  form: serialization.PrivateFormat) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form,
                                       serialization.NoEncryption()))
