"""`fedrean link`: tokens of patients, matching them across hospitals, and what tokens give away."""

from __future__ import annotations

import csv
import os
import secrets
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from common.errors import InputError
from common.linkage.tokens import Person
from simulations.link_leaks import leaks
from simulations.link_recall import recall
from simulations.link_risk import risk

link = typer.Typer(no_args_is_help=True,
                   help="Link patients across hospitals, and measure what the tokens give away.")
link.command()(risk)
link.command()(recall)
link.command()(leaks)

COLUMNS = ("person", "first", "last", "born", "gender", "zip", "id")
KeyFile = Annotated[Path, typer.Option("--key", help="File of the study's key.")]


@link.command()
def key(file: Annotated[Path, typer.Argument(metavar="FILE", help="New file.")]) -> None:
    """Make a study's key, 32 random bytes that only the owner may read.

    All hospitals of a study share it, the linkage agent never has it, and each study has its own.
    """
    from common.linkage.tokens import key_id

    secret = secrets.token_bytes(32)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(secret)
    except OSError as error:
        raise InputError(f"key is '{file}'; it cannot be made: {error.strerror}") from None
    print(f"{file}: key {key_id(secret)}")


@link.command()
def tokenize(
    people: Annotated[Path, typer.Argument(help=f"CSV with columns {', '.join(COLUMNS)}; all but "
                                                "person may be absent or empty.")],
    key: KeyFile, study: Annotated[str, typer.Option(help="Name of the study.")],
    site: Annotated[str, typer.Option(help="Name of the hospital.")],
    out: Annotated[Path, typer.Option(help="Token file for the linkage agent.")],
    handles: Annotated[Path, typer.Option("--handles", help="Which handle is whose; it never "
                                                            "leaves the hospital.")],
    token: Annotated[str, typer.Option(help="P: first and last name and birthday; I: these and "
                                            "id; or A to F, which are riskier.")] = "P",
) -> None:
    """Write tokens of a hospital's patients, under random handles.

    Rows of one `person` are one patient, and must agree. Whoever lacks an attribute of the token
    has none, is not linked, and stays charged for every hospital.
    """
    from common.linkage.token_file import TOKENS, Header, write, write_text
    from common.linkage.tokens import check_kind, key_id, read_key
    from common.linkage.tokens import token as token_of

    check_kind(token)
    secret = read_key(key)
    made = {who: token_of(token, of, secret) for who, of in people_of(people).items()}
    whose = {secrets.token_hex(8): who for who in sorted(made, key=lambda _: secrets.randbits(64))
             if made[who]}
    header = Header(study, site, token, key_id(secret))
    write_text(handles, "".join(f"{handle},{who}\n" for handle, who in whose.items()))
    write(out, TOKENS, header, ("handle", "token"), [(h, made[who]) for h, who in whose.items()])
    alike = len(whose) - len({made[who] for who in whose.values()})
    print(f"{out}: {len(whose)} tokens {token} under key {header.key}; "
          f"{len(made) - len(whose)} patients lack an attribute, {alike} share another's token")


@link.command()
def match(
    files: Annotated[list[Path], typer.Argument(metavar="TOKENS...", help="Token files, one a "
                                                                          "hospital.")],
    out: Annotated[Path, typer.Option(help="Folder for the answers, SITE.csv each.")],
    sites: Annotated[int, typer.Option(help="Hospitals that keep a person, at most; public.")] = 1,
) -> None:
    """Match tokens exactly and tell each hospital whom to keep; what the linkage agent runs.

    An answer says keep or drop and nothing else. Delete the token files afterwards.
    """
    from common.linkage.matching import Site
    from common.linkage.matching import match as decide
    from common.linkage.token_file import DECISION, TOKENS, Header, read, write

    given = [Site.of(*read(file, TOKENS, ("handle", "token"))) for file in files]
    answers = decide(given, sites)
    out.mkdir(parents=True, exist_ok=True)
    for site in given:
        own, keep = site.header, answers[site.header.site]
        write(out / f"{own.site}.csv", DECISION, Header(own.study, own.site, own.token, own.key,
                                                        sites),
              ("handle", "keep"), [(handle, str(int(kept))) for handle, kept in keep.items()])
    at = Counter(Counter(token for site in given for token in set(site.token_of.values())).values())
    print("persons at 1, 2, ... hospitals: " + ", ".join(
        str(at[k]) for k in range(1, max(at) + 1)) + f"; kept at {sites} at most")


@link.command()
def apply(
    decision: Annotated[Path, typer.Argument(help="The agent's answer to this hospital.")],
    handles: Annotated[Path, typer.Option("--handles", help="As written by tokenize.")],
    key: KeyFile, site: Annotated[str, typer.Option(help="Name of the hospital.")],
    out: Annotated[Path, typer.Option(help="List of patients to leave out, for the hospital "
                                           "file's key leave_out.")],
) -> None:
    """Turn an answer into the list of patients who take no part."""
    from common.linkage.token_file import DECISION, read, write_text
    from common.linkage.tokens import key_id, read_key

    header, rows = read(decision, DECISION, ("handle", "keep"))
    own = key_id(read_key(key))
    for name, wanted in (("site", site), ("key", own)):
        if getattr(header, name) != wanted:
            raise InputError(f"{decision} has {name} {getattr(header, name)!r}; allowed: "
                             f"{wanted!r}")
    whose = dict(line.split(",", 1) for line in _text(handles).splitlines())
    if set(whose) != {handle for handle, _ in rows} or len(rows) != len(whose):
        raise InputError(f"{decision} has {len(rows)} handles and {handles} {len(whose)}, or "
                         "others; allowed: the same, each once")
    if wrong := [keep for _, keep in rows if keep not in ("0", "1")]:
        raise InputError(f"{decision} says {wrong[0]!r}; allowed: 0 (drop) or 1 (keep)")
    dropped = sorted(whose[handle] for handle, keep in rows if keep == "0")
    write_text(out, "".join(f"{who}\n" for who in dropped))
    Console().print(f"{out}: {len(dropped)} of {len(whose)} patients take no part; the others are "
                    f"at {header.sites} hospitals at most: privacy.sites={header.sites}",
                    soft_wrap=True, highlight=False)


def people_of(file: Path) -> dict[str, Person]:
    """Patients by their local number.

    Raises:
        InputError: a wrong file, value, or two rows of one patient that differ.
    """
    from common.linkage.tokens import person

    reader = csv.DictReader(_text(file).splitlines())
    unknown = set(reader.fieldnames or ()) - set(COLUMNS)
    if unknown or "person" not in (reader.fieldnames or ()):
        raise InputError(f"people is '{file}' with columns {', '.join(reader.fieldnames or ())}; "
                         f"allowed: person, and any of {', '.join(COLUMNS[1:])}")
    found: dict[str, Person] = {}
    for line, row in enumerate(reader, start=2):
        who = (row["person"] or "").strip()
        try:
            if not who or None in row:
                raise InputError("it has no person, or more values than columns")
            of = person(*((row.get(name) or "") for name in COLUMNS[1:]))
            if found.setdefault(who, of) != of:
                raise InputError("another line of the same person says otherwise")
        except InputError as error:
            raise InputError(f"people is '{file}', line {line}: {error}") from None
    if not found:
        raise InputError(f"people is '{file}', which has 0 patients; at least 1 is needed")
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise InputError(f"file is '{file}'; it cannot be read: "
                         f"{getattr(error, 'strerror', None) or error}") from None
