"""The real download code against a server that cuts, lies and stalls."""

from __future__ import annotations

import hashlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

import fedrean
from common.ecg.databases import DATABASES, database_of
from common.ecg.download import TRIES, download, parse_sums
from common.ecg.hospital_file import load_hospital
from common.ecg.subjects import list_records, patient_of
from common.ecg.windows import WindowSettings, prepare
from common.errors import DownloadError, InputError

MITDB = DATABASES["mitdb"]


class Server(ThreadingHTTPServer):
    """PhysioNet in small: a folder, and faults that a test switches on."""

    def __init__(self, folder: Path, release: str = "mitdb/1.0.0") -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.release = folder, release
        self.cuts: dict[str, int] = {}  # name -> how often an answer breaks off half way
        self.altered: dict[str, int] = {}  # name -> how often it is sent with a wrong byte
        self.stalls: dict[str, int] = {}  # name -> how often it stops half way for a second
        self.ranges = True
        self.asked: list[tuple[str, str]] = []  # (name, Range) of every GET

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *words: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, body: bool) -> None:
        name = self.path.removeprefix(f"/files/{self.server.release}/")
        file = self.server.folder / name
        if not file.is_file():
            self.send_error(404)
            return
        content, wanted = file.read_bytes(), self.headers.get("Range", "")
        first = int(wanted[6:-1]) if wanted and self.server.ranges else 0
        if first >= len(content) > 0:
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        if body:
            self.server.asked.append((name, wanted))
            self.send_body(name, content[first:])

    def send_body(self, name: str, content: bytes) -> None:
        if self.server.altered.get(name, 0):
            self.server.altered[name] -= 1
            content = bytes([content[0] ^ 1]) + content[1:]
        if self.server.cuts.get(name, 0):
            self.server.cuts[name] -= 1
            content = content[: len(content) // 2]
            self.close_connection = True
        if self.server.stalls.get(name, 0):
            self.server.stalls[name] -= 1
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            time.sleep(1)
            self.close_connection = True
            return
        self.wfile.write(content)


@contextmanager
def lay_out(source: Path, folder: Path, release: str = "mitdb/1.0.0") -> Iterator[Server]:
    """A server of a synthetic hospital, without its hospital file, in PhysioNet's layout."""
    shutil.copytree(source, folder)
    for hidden in folder.glob(".*"):
        hidden.unlink()
    (folder / "hospital.yaml").unlink()
    (folder / "mitdbdir").mkdir()
    (folder / "mitdbdir" / "records.htm").write_text("below a folder")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    (folder / "SHA256SUMS.txt").write_text("".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.relative_to(folder)}\n"
        for path in files))
    with Server(folder, release) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def physionet(consortium: Path, tmp_path: Path) -> Iterator[Server]:
    with lay_out(consortium / "mitdb", tmp_path / "server") as server:
        yield server


def fetch(server: Server, to: Path) -> Path:
    return download(MITDB, to, lambda *_: None, server.address, pause=0.01)


def same(server: Server, to: Path) -> bool:
    """Whether every file of the server has arrived, byte for byte, and no part is left."""
    sums = parse_sums((server.folder / "SHA256SUMS.txt").read_text())
    arrived = all((to / name).read_bytes() == (server.folder / name).read_bytes()
                  for name in sums)
    return arrived and not list(to.rglob("*.part"))


def test_a_database_becomes_a_hospital(physionet, tmp_path):
    seen = []
    file = download(MITDB, tmp_path / "to", lambda *words: seen.append(words), physionet.address)
    assert same(physionet, tmp_path / "to")
    hospital = load_hospital(file)
    assert patient_of(hospital, list_records(hospital))["202"] == "201"
    terms = (tmp_path / "to" / "TERMS.txt").read_text()
    assert "Open Data Commons Attribution License" in terms and "Moody GB" in terms
    done, total = [words[1] for words in seen], seen[-1][2]
    assert done == sorted(done) and done[-1] == total == sum(
        len((physionet.folder / name).read_bytes())
        for name in parse_sums((physionet.folder / "SHA256SUMS.txt").read_text()))


@pytest.mark.parametrize("slug", ["mitdb", "ltdb", "incartdb", "shdb-af"])
def test_each_database_of_the_paper_from_its_server_to_windows(slug, consortium, tmp_path):
    """Its own hospital file reads what the synthetic one, made beside the records, reads."""
    database = DATABASES[slug]
    with lay_out(consortium / slug, tmp_path / "server", f"{slug}/{database.version}") as server:
        file = download(database, tmp_path / "to", lambda *_: None, server.address)
    settings = WindowSettings(100, 8.0, 0.15, 0)
    made = prepare(load_hospital(file), tmp_path / "stores", settings)
    expected = prepare(load_hospital(consortium / slug / "hospital.yaml"), tmp_path / "other",
                       settings)
    assert len(made.info["patients"]) == 3
    assert made.index.tobytes() == expected.index.tobytes()
    assert made.windows.tobytes() == expected.windows.tobytes()


def test_a_second_call_fetches_nothing_and_keeps_an_edited_hospital_file(physionet, tmp_path):
    file = fetch(physionet, tmp_path / "to")
    file.write_text("edited")
    physionet.asked.clear()
    assert fetch(physionet, tmp_path / "to").read_text() == "edited"
    assert [name for name, _ in physionet.asked] == ["SHA256SUMS.txt"]


def test_a_cut_goes_on_where_it_was(physionet, tmp_path):
    physionet.cuts["100.dat"] = TRIES - 1
    fetch(physionet, tmp_path / "to")
    assert same(physionet, tmp_path / "to")
    ranges = [wanted for name, wanted in physionet.asked if name == "100.dat"]
    half = (physionet.folder / "100.dat").stat().st_size // 2
    assert len(ranges) == TRIES and ranges[:2] == ["", f"bytes={half}-"]


def test_a_server_that_stalls_is_asked_again(physionet, tmp_path, monkeypatch):
    monkeypatch.setattr("common.ecg.download._TIMEOUT", httpx.Timeout(0.2))
    physionet.stalls["100.dat"] = 1
    fetch(physionet, tmp_path / "to")
    assert same(physionet, tmp_path / "to")
    assert [name for name, _ in physionet.asked].count("100.dat") == 2


def test_the_command(physionet, tmp_path, monkeypatch, capsys):
    words = ["data", "download", "mitdb", "--to", str(tmp_path), "--mirror", physionet.address]
    monkeypatch.setattr(sys, "argv", ["fedrean", *words])
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    out = capsys.readouterr().out
    assert left.value.code == 0 and same(physionet, tmp_path / "mitdb")
    assert "Open Data Commons" in out and str(tmp_path / "mitdb" / "hospital.yaml") in out


def test_an_interrupted_call_is_taken_up_by_the_next(physionet, tmp_path):
    physionet.cuts["102.dat"] = TRIES
    with pytest.raises(DownloadError, match="what arrived is kept") as error:
        fetch(physionet, tmp_path / "to")
    assert "wget" in str(error.value) and "\n" not in str(error.value)
    physionet.asked.clear()
    fetch(physionet, tmp_path / "to")
    assert same(physionet, tmp_path / "to")
    assert "100.dat" not in [name for name, _ in physionet.asked]
    assert dict(physionet.asked)["102.dat"].startswith("bytes=")


def test_a_server_without_ranges_sends_all_again(physionet, tmp_path):
    physionet.ranges, physionet.cuts["100.dat"] = False, 1
    fetch(physionet, tmp_path / "to")
    assert same(physionet, tmp_path / "to")
    assert [name for name, _ in physionet.asked].count("100.dat") == 2  # no third for a wrong sum


def test_a_wrong_checksum_is_fetched_once_more_then_named(physionet, tmp_path):
    physionet.altered.update({"100.dat": 1, "102.dat": 2})
    with pytest.raises(DownloadError, match=r"1 of \d+ files of mitdb: 102\.dat has another"):
        fetch(physionet, tmp_path / "to")
    assert (tmp_path / "to" / "100.dat").exists() and (tmp_path / "to" / "202.dat").exists()
    assert not (tmp_path / "to" / "102.dat").exists()
    assert [name for name, _ in physionet.asked].count("102.dat") == 2
    fetch(physionet, tmp_path / "to")
    assert same(physionet, tmp_path / "to")


def test_a_file_that_is_not_there_is_named_and_the_others_come(physionet, tmp_path):
    (physionet.folder / "102.atr").unlink()
    with pytest.raises(DownloadError, match=r"102\.atr: the server answers 404"):
        fetch(physionet, tmp_path / "to")
    assert (tmp_path / "to" / "202.hea").exists()


def test_a_file_changed_on_disk_is_fetched_again(physionet, tmp_path):
    fetch(physionet, tmp_path / "to")
    (tmp_path / "to" / "100.dat").write_bytes(b"damaged")
    fetch(physionet, tmp_path / "to")
    assert same(physionet, tmp_path / "to")


def test_no_network(tmp_path):
    with pytest.raises(DownloadError, match=r"mitdb cannot be fetched from http://127\.0\.0\.1:9"):
        download(MITDB, tmp_path / "to", lambda *_: None, "http://127.0.0.1:9")
    assert not (tmp_path / "to").exists()


def test_no_room(physionet, tmp_path, monkeypatch):
    monkeypatch.setattr("common.ecg.download.shutil.disk_usage",
                        lambda folder: shutil._ntuple_diskusage(1, 1, 0))
    with pytest.raises(InputError, match=r"GB are needed, and 0\.00 GB are free"):
        fetch(physionet, tmp_path / "to")


def test_a_folder_that_cannot_be_made(physionet, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot be written"):
        fetch(physionet, tmp_path / "file" / "to")


@pytest.mark.parametrize("line", ["", "zz  100.dat", "0" * 64 + "  ../outside", "0" * 64 + "  /x"])
def test_sums_that_are_refused(line):
    with pytest.raises(DownloadError, match=r"SHA256SUMS\.txt"):
        parse_sums(line)


@pytest.mark.parametrize("slug", sorted(DATABASES))
def test_every_hospital_file_is_accepted(slug, tmp_path):
    (tmp_path / "AdditionalData.csv").write_text("Data_ID,Subject_ID,Age,Gender\n")
    (tmp_path / "SELECTED").touch()
    file = tmp_path / "hospital.yaml"
    file.write_text(database_of(slug).hospital_file())
    assert load_hospital(file).name == slug


def test_an_unknown_database():
    with pytest.raises(InputError, match="database is 'ptbxl'; allowed is one of mitdb, ltdb"):
        database_of("ptbxl")
