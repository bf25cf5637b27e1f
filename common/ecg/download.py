"""Fetch a PhysioNet release: every file checked, resumable after a cut."""

from __future__ import annotations

import hashlib
import re
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

import httpx

from common.ecg.databases import PHYSIONET, Database
from common.errors import DownloadError, InputError

SUMS = "SHA256SUMS.txt"
TRIES = 4  # of one file, each going on where the last was cut
_TIMEOUT = httpx.Timeout(30.0)  # s without an answer or a byte

Progress = Callable[[str, int, int], None]  # file, bytes so far, bytes in all


class _AlteredError(Exception):
    """A file arrived whole and is not the release's."""


def download(database: Database, folder: Path, progress: Progress,
             mirror: str = PHYSIONET, pause: float = 2.0) -> Path:
    """Fetch what a folder lacks of a release, and write its hospital.yaml and TERMS.txt.

    Args:
        database: what to fetch.
        folder: where its files go; what lies there and has the right checksum stays.
        progress: told of every piece that arrived.
        mirror: server that lays the files out as PhysioNet does.
        pause: before a cut connection is tried again, s.

    Returns:
        The hospital file.

    Raises:
        InputError: the folder cannot be written, the disk has not room enough, or a table by
            which records are selected is not as it should be.
        DownloadError: no network, or files that are missing or altered; all are named. What
            arrived stays, and the next call goes on from there.
    """
    base = database.address(mirror)
    try:
        with httpx.Client(timeout=_TIMEOUT, follow_redirects=True,
                          headers={"Accept-Encoding": "identity"}) as client:
            sums = parse_sums(_text(client, f"{base}/{SUMS}"))
            folder.mkdir(parents=True, exist_ok=True)
            missing = {name: sha for name, sha in sums.items()
                       if _sha256(folder / name) != sha}
            sizes = {name: _size(client, f"{base}/{name}") for name in missing}
            _check_room(folder, sizes)
            problems = _fetch_all(client, base, folder, missing, sizes, progress, pause)
    except httpx.HTTPError as error:
        raise DownloadError(
            f"database {database.slug} cannot be fetched from {base}/: {_reason(error)}; what "
            f"arrived is kept; by hand: wget -r -N -c -np -nH --cut-dirs=3 -P {folder} {base}/"
        ) from None
    except OSError as error:
        raise InputError(f"folder is '{folder}'; it cannot be written: {error}") from None
    if problems:
        raise DownloadError(f"{len(problems)} of {len(sums)} files of {database.slug}: "
                            f"{'; '.join(problems)}; what arrived is kept, run it again")
    (folder / SUMS).write_text("".join(f"{sha} {name}\n" for name, sha in sums.items()))
    (folder / "TERMS.txt").write_text(database.terms())
    if database.select:
        (folder / "SELECTED").write_text("".join(f"{r}\n" for r in database.select(folder)))
    hospital = folder / "hospital.yaml"
    if not hospital.exists():  # it may have been edited since
        hospital.write_text(database.hospital_file())
    return hospital


def parse_sums(text: str) -> dict[str, str]:
    """{relative name: SHA-256} of a SHA256SUMS.txt.

    Raises:
        DownloadError: a line is no checksum, or a name leaves the folder.
    """
    sums = {}
    for line in text.splitlines():
        found = re.fullmatch(r"([0-9a-f]{64}) [ *]?(\S.*)", line.strip())
        if not found:
            raise DownloadError(f"{SUMS} has the line {line[:80]!r}; allowed is a SHA-256 and a "
                                "name")
        path = PurePosixPath(found[2])
        if path.is_absolute() or ".." in path.parts or "\\" in found[2]:
            raise DownloadError(f"{SUMS} names {found[2]!r}; allowed is a name inside the folder")
        sums[str(path)] = found[1]
    if not sums:
        raise DownloadError(f"{SUMS} names 0 files; at least 1 is needed")
    return sums


def _fetch_all(client: httpx.Client, base: str, folder: Path, missing: dict[str, str],
               sizes: dict[str, int], progress: Progress, pause: float) -> list[str]:
    """Fetch files one after the other; what is wrong with those that did not come."""
    total, before, problems = sum(sizes.values()), 0, []
    for name, sha in missing.items():
        arrived = partial(_arrived, progress, name, before, total)
        for attempt in ("first", "second"):
            try:
                _fetch(client, f"{base}/{name}", folder / name, sha, pause, arrived)
                break
            except _AlteredError:
                if attempt == "second":
                    problems.append(f"{name} has another checksum than {SUMS} says, twice")
            except httpx.HTTPStatusError as error:
                problems.append(f"{name}: {_reason(error)}")
                break
        before += sizes[name]
    return problems


def _arrived(progress: Progress, name: str, before: int, total: int, of_file: int) -> None:
    progress(name, before + of_file, total)


def _fetch(client: httpx.Client, url: str, target: Path, sha: str, pause: float,
           progress: Callable[[int], None]) -> None:
    """Fetch one file into `target`; its unfinished part is `target`.part."""
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(TRIES):
        try:
            _go_on(client, url, part, progress)
            break
        except httpx.HTTPStatusError:
            raise
        except httpx.HTTPError:
            if attempt == TRIES - 1:
                raise
            time.sleep(pause * 2**attempt)
    if _sha256(part) != sha:
        part.unlink()
        raise _AlteredError
    part.replace(target)


def _go_on(client: httpx.Client, url: str, part: Path, progress: Callable[[int], None]) -> None:
    """Fetch what a part lacks; a server that ignores the range sends the file from its start."""
    have = part.stat().st_size if part.exists() else 0
    with client.stream("GET", url, headers={"Range": f"bytes={have}-"} if have else {}) as answer:
        if answer.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # nothing is lacking; the checksum decides
        answer.raise_for_status()
        resumed = answer.status_code == httpx.codes.PARTIAL_CONTENT
        with part.open("ab" if resumed else "wb") as out:
            have = have if resumed else 0
            for chunk in answer.iter_raw():  # as it comes: a cut loses nothing that arrived
                out.write(chunk)
                have += len(chunk)
                progress(have)


def _text(client: httpx.Client, url: str) -> str:
    answer = client.get(url)
    answer.raise_for_status()
    return answer.text


def _size(client: httpx.Client, url: str) -> int:
    """Bytes of a file; 0 where the server does not say, as then nothing can be checked."""
    answer = client.head(url)
    return int(answer.headers.get("Content-Length", 0)) if answer.is_success else 0


def _check_room(folder: Path, sizes: dict[str, int]) -> None:
    parts = [folder / f"{name}.part" for name in sizes]
    need = sum(sizes.values()) - sum(part.stat().st_size for part in parts if part.exists())
    free = shutil.disk_usage(folder).free
    if need > free:
        raise InputError(f"folder is '{folder}'; {need / 1e9:.2f} GB are needed, and "
                         f"{free / 1e9:.2f} GB are free")


def _sha256(path: Path) -> str:
    """SHA-256 of a file; empty where there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"the server answers {error.response.status_code}"
    return str(error) or type(error).__name__

