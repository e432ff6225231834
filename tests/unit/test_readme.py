"""README: every command and file in it works as written."""

import contextlib
import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

import click
import pytest

from sweep import cli
from sweep.store import Store

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="not in a source tree")


def marked(kind):
    """name -> the text of the code block that follows `<!-- kind: name -->`."""
    found = re.findall(rf"^<!-- {kind}: (\S+) -->\n```\w*\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return dict(found)


def lines():
    """Every `sweep ...` in a code block or between backticks, without its comment."""
    text = README.read_text()
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    spoken = re.findall(r"`(sweep [^`]+)`", text)
    return sorted({shlex.join(shlex.split(line, comments=True)) for line in [*blocks.splitlines(), *spoken]
                   if line.startswith("sweep ")})


def test_ci_finds_both_commands():
    assert set(marked("command")) >= {"run", "test"}
    assert "sweep run breakout --budget 5m --verify 4m" in marked("command")["run"]
    assert "pytest" in marked("command")["test"]
    extracted = subprocess.run(
        ["bash", "-c", f"cd {shlex.quote(str(ROOT))}; eval \"$(sed -n '/^command_of()/,/^}}/p' .ci/run)\"; command_of run; command_of test"],
        capture_output=True, text=True, check=True)
    assert extracted.stdout == marked("command")["run"] + marked("command")["test"]


@pytest.mark.parametrize("line", lines() if README.is_file() else [])
def test_every_command_parses(line):
    name, *arguments = shlex.split(line)[1:]
    if name.startswith("--"):
        return
    command = cli.cli.commands[name]
    arguments = [a for a in arguments if not a.startswith("[")]
    with click.Context(command) as context:
        try:
            command.parse_args(context, arguments)
        except click.MissingParameter:
            assert not arguments, line  # spoken of without its study


def test_the_environment_of_the_readme_is_swept(tmp_path):
    files = {name: text for name, text in marked("file").items() if "fruit" in name}
    assert sum(text.count("\n") for text in files.values()) < 80
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)}

    def call(*arguments):
        return subprocess.run([sys.executable, "-P", "-c", "from sweep.cli import main; main()", *arguments],
                              cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)

    checked = call(*shlex.split(marked("command")["check"])[1:])
    assert checked.returncode == 0 and checked.stdout.startswith("fruit: no fault found"), checked.stdout
    shown = re.search(r"^fruit: no fault found.*?^speed", README.read_text(), re.MULTILINE | re.DOTALL)
    assert checked.stdout.startswith(shown[0])  # all but the speed, to the letter
    command = shlex.split(marked("command")["fruit"])
    ended = call(*command[1:], "--budget", "10s", "--verify", "5s")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(call("show", "fruit", "--json").stdout)["counts"]["runs"]["solved"] > 0, ended.stdout


def test_the_trainer_of_the_readme_trains(tmp_path):
    (tmp_path / "mine.py").write_text(marked("file")["mine.py"].replace("20s", "3s").replace("10s", "2s"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)}
    subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, env=environment, check=True, timeout=120)
    with contextlib.closing(Store(tmp_path / "sweep.db", create=False, readonly=True)) as store:
        counts = store.counts(store.find("cartpole-mine")["id"])
    assert counts["runs"]["solved"] + counts["runs"]["censored"] > 0 and not counts["runs"]["crashed"]


@pytest.mark.parametrize("command", re.findall(r'sqlite3[^"]*sweep\.db "(SELECT [^"]*)"', README.read_text() if README.is_file() else ""))
def test_queries_of_the_readme_run(command, tmp_path):
    Store(tmp_path / "sweep.db").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "sweep.db")) as database:
        database.execute(command).fetchall()


@pytest.mark.parametrize("name", ["transition", "train", "resume"])
def test_python_of_the_readme_runs(name, tmp_path, monkeypatch, capsys):
    for file, text in marked("file").items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    exec(compile(marked("python")[name], str(README), "exec"), {})  # noqa: S102 - our own README
    assert capsys.readouterr().out


def test_files_that_the_readme_names_are_there():
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()):
        assert (ROOT / name).exists(), name
