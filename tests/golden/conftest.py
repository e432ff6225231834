"""Prints what the golden tests compared; with SWEEP_GOLDEN_TABLE=FILE it is written there too, as JSON."""

import json
import os
from pathlib import Path

import replay


def pytest_terminal_summary(terminalreporter):
    if not replay.COMPARED:
        return
    terminalreporter.section("golden transitions: environment, reference, how many, largest error")
    for (env, reference), (transitions, worst) in sorted(replay.COMPARED.items()):
        terminalreporter.line(f"{env:24} {reference:28} {transitions:>9,} {f'{worst:.1e}' if worst else 'exact':>9}")
    if path := os.environ.get("SWEEP_GOLDEN_TABLE"):
        rows = [(*key, *row) for key, row in sorted(replay.COMPARED.items())]
        Path(path).write_text(json.dumps(rows, indent=1) + "\n")
