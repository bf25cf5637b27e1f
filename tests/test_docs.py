"""The commands that README and docs/ show: each is run, or parsed as the command line would."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

import fedrean
from common.ecg.hospital_file import KEYS
from server.overrides import compose_settings

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str = "") -> list[str]:
    """Fenced blocks of a page, in a language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def commands() -> list[list[str]]:
    """Words of every command line of the fenced blocks and of `code` that begins like one."""
    lines = [line for page in PAGES for block in blocks(page) for line in block.splitlines()]
    lines += [code for page in PAGES
              for code in re.findall(r"`([^`\n]*(?:fedrean|make) [^`\n]+)`", page.read_text())]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def overrides() -> list[list[str]]:
    """Overrides of every shown `fedrean simulate`, `make simulate` and --run-config."""
    found = [words[2:] for words in commands()
             if words[0].endswith("fedrean") and words[1] == "simulate"]
    found += [word.removeprefix("OVERRIDES=").split() for words in commands() for word in words
              if word.startswith("OVERRIDES=")]
    found += [text.split() for page in PAGES
              for text in re.findall(r'overrides="([^"]+)"', page.read_text())]
    return found


def test_overrides_that_are_shown_are_accepted():
    shown = overrides()
    assert len(shown) >= 4
    for words in shown:
        if words and not words[0].startswith(("--help", "resume=")):
            compose_settings(words)


def test_make_targets_that_are_shown_exist():
    shown = {word for words in commands() if "make" in words
             for word in words[words.index("make") + 1 :]}
    assert {"simulate", "test", "bench"} <= shown
    rules = re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert shown <= set(rules)


def test_data_commands_that_are_shown_are_parsed():
    group = typer.main.get_command(fedrean.app).commands["data"]
    shown = [words[2:] for words in commands()
             if words[0].endswith("fedrean") and words[1] == "data"]
    assert {words[0] for words in shown} >= {"download", "prepare", "describe"}
    for name, *words in shown:
        group.commands[name].make_context(name, words)  # exits where a word is wrong


@pytest.mark.parametrize("words", ["simulate", "report", "data prepare", "study anonymizers"])
def test_help_shows_brackets_as_they_are(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fedrean", *words.split(), "--help"])
    with pytest.raises(SystemExit):
        fedrean.main()
    shown = capsys.readouterr().out
    assert "[required]" in shown or "[default: " in shown
    assert "\\[" not in shown


def test_the_hospital_file_of_the_readme(consortium, tmp_path, monkeypatch, capsys):
    [text] = blocks(ROOT / "README.md", "yaml")
    shutil.copytree(consortium / "mitdb", tmp_path, dirs_exist_ok=True)
    (tmp_path / "hospital.yaml").write_text(text)
    [words] = [words for words in commands() if words[1:] == ["data", "describe", "hospital.yaml"]]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as left:
        fedrean.main()
    assert left.value.code == 0
    assert "mitdb" in capsys.readouterr().out


def test_the_hospital_file_keys_of_the_docs():
    page = (ROOT / "docs" / "data.md").read_text()
    table = page[page.index("| key |") : page.index("WFDB records have one segment")]
    shown = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert shown == list(KEYS)


def test_the_folder_that_compose_mounts(tmp_path):
    [code] = [words[2] for words in commands() if words[1:2] == ["-c"]]
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True,
                   env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"})
    assert (tmp_path / "deploy" / "keys" / "shdb-af").is_file()


def test_the_keys_that_a_deployed_run_takes():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    page = (ROOT / "docs" / "deployment.md").read_text()
    table = page[page.index("| key |") : page.index("## What a hospital decides")]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(settings)
