"""The command line: what it refuses in one line, and how it prints."""

import importlib
import io
import json
import subprocess
import sys

import pytest

from sweep import cli, terminal
from trainer_native import environments


def call(capsys, *arguments):
    """(exit status, stdout, stderr) of the command."""
    with pytest.raises(SystemExit) as exit_:
        cli.main(list(arguments))
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def test_help_imports_nothing_heavy():
    code = ("import sys\nfrom sweep.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
            "print([m for m in ('numpy', 'optuna', 'ray', 'plotly', 'sqlite_utils', 'trainer_native') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("arguments", "meant"), [
    (["reprot", "x"], "'report'"),
    (["run", "cartpole", "--budgte", "5m"], "'--budget'"),
    (["best", "x", "--max-parameters", "0"], "max-parameters"),
    (["show"], "STUDY"),
    (["run", "cartpole", "--seed", "-1"], "--seed"),
    (["train", "a.toml", "--seed", str(2**63)], "--seed"),
    (["best", "x", "--within", "nan"], "--within"),
])
def test_a_mistyped_command_is_one_line(capsys, arguments, meant):
    status, out, err = call(capsys, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("sweep: ") and meant in err and err.count("\n") == 1


@pytest.mark.parametrize(("module", "name"), cli.USER_ERRORS.items())
def test_a_users_mistake_is_one_line(capsys, monkeypatch, module, name):
    error = getattr(importlib.import_module(module), name)
    mistake = error("key", "where: what") if name == "ConfigError" else error("where: what")
    monkeypatch.setattr("sweep.commands.studies", lambda database: (_ for _ in ()).throw(mistake))
    status, out, err = call(capsys, "ls")
    assert (status, out, err) == (2, "", "sweep: where: what\n")


def test_anything_unforeseen_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr("sweep.commands.studies", lambda database: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["ls"])


def test_every_command_has_help(capsys):
    for name in cli.cli.commands:
        status, out, _ = call(capsys, name, "--help")
        assert status == 0 and out.startswith(f"Usage: sweep {name}")


@pytest.fixture(scope="module")
def compiled():
    """All environments, so that no command has to say that it compiles them."""
    for name in environments.names():
        environments.find(name)


@pytest.mark.parametrize("end", [">&-", "> /dev/full"])
@pytest.mark.parametrize("command", ["--help", "envs --json"])
def test_an_output_that_cannot_be_written_is_one_line(end, command, compiled):
    code = f"'{sys.executable}' -c 'from sweep.cli import main; main()' {command} {end}"
    done = subprocess.run(["sh", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("sweep: standard output") and done.stderr.count("\n") == 1


# -- the view of a running study ------------------------------------------------------------------------

SNAPSHOT = {"study": "breakout", "phase": "search", "trials": 412, "runs": 987, "solved": 306, "runs_per_second": 6.21,
            "front": [(i, 600 + 100 * i, 20.0 - i) for i in range(19)], "seconds_left": 192.0, "workers": 2, "message": None}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def screen(text):
    """What a terminal shows after `text`: just the control sequences that the view uses."""
    lines, row = [""], 0
    for part in text.replace("\x1b[J", "\x00J").replace("\x1b[", "\x00[").split("\x00"):
        if part.startswith("J"):
            lines = lines[:row] + [""]
            part = part[1:]
        elif part.startswith("["):
            number, end = part[1:].split(next(c for c in part[1:] if c.isalpha()), 1)[0], part
            letter = next(c for c in part[1:] if c.isalpha())
            part = end[2 + len(number):]
            if letter == "F":
                row -= int(number)
        for i, piece in enumerate(part.split("\n")):
            if i:
                row += 1
                if row == len(lines):
                    lines.append("")
            lines[row] += piece
    return lines


def test_the_view_redraws_in_place_within_80_columns(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    stream, times = Terminal(), iter(range(10))
    view = terminal.View(stream, clock=lambda: next(times))
    view(SNAPSHOT)
    view({**SNAPSHOT, "trials": 413})
    view({**SNAPSHOT, "trials": 414, "front": SNAPSHOT["front"][:1]})
    shown = screen(stream.getvalue())
    assert sum("trials" in line for line in shown) == 1 and "414 trials" in "\n".join(shown)
    assert max(map(len, shown)) < 80 and "\x1b[1m" not in stream.getvalue()


def test_elsewhere_the_view_is_one_plain_line_each_ten_seconds():
    stream, now = io.StringIO(), [0.0]
    view = terminal.View(stream, clock=lambda: now[0])
    for now[0] in range(25):
        view(SNAPSHOT)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and "\x1b" not in stream.getvalue()
    assert lines[0] == "breakout search: 412 trials, 987 runs, 31% solved, 6.21 runs/s, best 2.00 s, 3 min 12 s left"


def test_a_view_of_a_study_that_has_nothing_yet():
    stream = io.StringIO()
    terminal.View(stream)({**SNAPSHOT, "trials": 0, "runs": 0, "solved": 0, "runs_per_second": 0.0, "front": []})
    assert "best –" in stream.getvalue()


# -- tables and JSON ------------------------------------------------------------------------------------

BEST = {"study": "breakout", "env": "breakout", "machine": {}, "recommended": 82, "front": [
    {"trial": 1082, "parameters": 12345, "params": {}, "runs": 32, "solved": 32, "verified": True, "steps_per_second": 1.2e6,
     "seconds": {"median": 0.1234, "low": 0.01012, "high": 0.01509, "restart_ert": 0.0513, "olympic": 6.2},
     "env_steps": {"median": 123.4e6}},
    {"trial": 7, "parameters": 23456, "params": {}, "runs": 1, "solved": 1, "verified": False, "steps_per_second": None,
     "seconds": {"median": None, "low": None, "high": None, "restart_ert": float("inf"), "olympic": None},
     "env_steps": {"median": None}},
]}


def test_the_front_fits_80_columns():
    text = terminal.front(BEST)
    assert max(map(len, text.splitlines())) <= 80, text
    assert "∞" in text and "nan" not in text and "None" not in text


def test_json_is_strict():
    import numpy as np

    text = terminal.dumps({"a": float("inf"), "b": np.array([[1.0, np.nan]]), "c": np.float32(0.5), 3: (np.int64(4), True)})
    assert json.loads(text, parse_constant=pytest.fail) == {"a": None, "b": [[1.0, None]], "c": 0.5, "3": [4, True]}


def test_a_curve_of_any_length_is_a_short_table():
    points = [(t, t * 1.1, 1000 * t, 10.0 * t - 30) for t in range(1, 129)]
    assert len(terminal.curve(points).splitlines()) == 13
    assert terminal.curve([(1, 1, 5, float("nan"))]) == "No episode has finished."
    assert "5.0" in terminal.curve([(1, 1, 5, 5.0)])
