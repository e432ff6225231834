"""What a person reads in a terminal: tables in 80 columns, and a view of a running study that redraws itself."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from sweep import formats

#: Seconds between two plain lines, and between two redraws, of a running study.
PLAIN_SECONDS, REDRAW_SECONDS = 10.0, 0.5


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their longest cell, the first to the left and all others to the right."""
    cells = [list(head), *([formats.ABSENT if c is None else str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for row in cells:
        first, *others = (c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        lines.append("  ".join([first, *others]).rstrip())
    return "\n".join(lines)


def front(best: dict) -> str:
    """The front of a study, from what `results.best` gives; the smallest network first."""
    rows = []
    for entry in best["front"]:
        marks = (">" if entry["trial"] == best["recommended"] else " ") + ("*" if entry["verified"] else " ")
        t = entry["seconds"]
        high = "∞" if t["high"] is None else formats.number(t["high"])  # too few solves to bound it
        span = f" ({formats.number(t['low'])}–{high})" if t["median"] is not None else ""
        size = formats.whole(entry["parameters"])
        rows.append([f"{marks} {entry['trial']}", size, f"{entry['solved']}/{entry['runs']}",
                     formats.number(t["median"]) + span, formats.seconds(t["restart_ert"]),
                     formats.short(entry["env_steps"]["median"]), formats.short(entry["steps_per_second"])])
    if not rows:
        return "No trial has solved yet."
    head = ["  trial", "size", "solved", "median, s (95%)", "restart ERT", "env steps", "steps/s"]
    return table(head, rows) + "\nsize: parameters   > recommended   * verified: 12+ fresh seeds, 80%+ solved"


def runner_up(trial: int, found: dict) -> str:
    """How sure it is that a trial is faster than another, from what `results.runner_up` gives."""
    high = "∞" if found["high"] is None else formats.number(found["high"])
    return (f"Trial {trial} takes {formats.number(found['ratio'])} × the restart ERT of trial {found['trial']}, the fastest other verified "
            f"(95% interval {formats.number(found['low'])}–{high}, which allows for failures not seen yet; p of no difference "
            f"{found['p_value']:.2g}).")


def curve(points, width: int = 30, rows: int = 12, what: str = "mean return") -> str:
    """A learning curve [n, 4: CPU seconds, seconds, env steps, mean return, or `what` else] as a table with a bar for it."""
    points = [p for p in points if p[3] == p[3]]
    if not points:
        return "No episode has finished."
    shown = [points[round(i * (len(points) - 1) / max(1, rows - 1))] for i in range(min(rows, len(points)))]
    if len(points) <= rows:
        shown = points
    low, high = min(0.0, *(p[3] for p in shown)), max(p[3] for p in shown)
    bar = "█" if (sys.stdout.encoding or "").lower().startswith("utf") else "#"
    lines, digits = [], 1 if what == "mean return" else 3
    for _, wall, env_steps, value in shown:
        length = round(width * (value - low) / (high - low)) if high > low else 0
        lines.append(f"{formats.seconds(wall):>11} {formats.short(env_steps):>9} {value:12.{digits}f}  {bar * length}".rstrip())
    return f"{'time':>11} {'env steps':>9} {what:>12}\n" + "\n".join(lines)


def _fancy(stream) -> bool:
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextlib.contextmanager
def progress(stream=None, clock=time.monotonic) -> Iterator[Callable[[str], None]]:
    """Shows how far something is: on a terminal in one line that goes when it is over, elsewhere a line each ten seconds."""
    stream = stream or sys.stderr
    fancy, last = _fancy(stream), -float("inf")

    def show(line: str) -> None:
        nonlocal last
        if fancy:
            stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        elif clock() - last >= PLAIN_SECONDS:
            last = clock()
            stream.write(line + "\n")
        stream.flush()

    try:
        yield show
    finally:
        if fancy:
            stream.write("\r\x1b[K")
            stream.flush()


class View:
    """Shows a running study: call it with each snapshot of the engine.

    A snapshot is a dict: study, phase, trials, runs, solved (runs), runs_per_second, front
    [(trial, parameters, restart ERT in seconds)], seconds_left, workers, message.
    On a terminal the view redraws itself in place; elsewhere one line stands for each ten seconds.
    """

    def __init__(self, stream=None, clock=time.monotonic):
        self.stream = stream or sys.stderr
        self.clock = clock
        self.fancy = _fancy(self.stream)
        self.colour = self.fancy and not os.environ.get("NO_COLOR")
        self.drawn = 0  # lines on the screen that the next redraw replaces
        self.last = -float("inf")
        self.phase = None

    def __call__(self, snapshot: dict) -> None:
        now, phase = self.clock(), snapshot["phase"]
        if phase == "searching":
            phase += snapshot.get("message") or ""  # that Ctrl-C was heard is said at once
        if now - self.last < (REDRAW_SECONDS if self.fancy else PLAIN_SECONDS) and phase == self.phase:
            return
        self.last, self.phase = now, phase
        if self.fancy:
            self._redraw(self._lines(snapshot))
        else:
            print(self._plain(snapshot), file=self.stream, flush=True)

    def say(self, text: str) -> None:
        """A line that stays: above the view on a terminal."""
        if self.fancy and self.drawn:
            self.stream.write(f"\x1b[{self.drawn}F\x1b[J")
            self.drawn = 0
        print(text, file=self.stream, flush=True)

    def _plain(self, s: dict) -> str:
        if s.get("message"):
            return f"{s['study']} {s['phase']}: {s['message']}, {formats.duration(round(s['seconds_left']))} left"
        best = min((ert for _, _, ert in s["front"]), default=None)
        return (f"{s['study']} {s['phase']}: {s['trials']} trials, {s['runs']} runs, {_share(s)} solved, "
                f"{formats.number(s['runs_per_second'])} runs/s, best {formats.seconds(best)}, "
                f"{formats.duration(round(s['seconds_left']))} left")

    def _lines(self, s: dict) -> list[str]:
        speed = formats.number(s["runs_per_second"])
        lines = [f"{self._bold(s['study'])}  {s['phase']}, {formats.duration(round(s['seconds_left']))} left",
                 f"  {s['trials']} trials   {s['runs']} runs   {_share(s)} solved   {speed} runs/s"]
        if s.get("message"):
            lines.append(f"  {s['message']}")
        if s["front"]:
            room = max(3, min(10, shutil.get_terminal_size().lines - len(lines) - 3))
            shown = s["front"] if len(s["front"]) <= room else _spread(s["front"], room)
            rows = [(f"  {parameters:,}", formats.seconds(ert), trial) for trial, parameters, ert in shown]
            lines += table(["  parameters", "restart ERT", "trial"], rows).splitlines()
        return lines

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text

    def _redraw(self, lines: list[str]) -> None:
        width = shutil.get_terminal_size().columns - 1
        lines = [lines[0], *(line[:width] for line in lines[1:])]
        back = f"\x1b[{self.drawn}F" if self.drawn else ""
        self.stream.write(back + "\x1b[J" + "\n".join(lines) + "\n")
        self.stream.flush()
        self.drawn = len(lines)


def _share(s: dict) -> str:
    return formats.percent(s["solved"] / s["runs"] if s["runs"] else 0)


def _spread(rows: list, room: int) -> list:
    """`room` rows evenly from the first to the last, both included."""
    return [rows[round(i * (len(rows) - 1) / (room - 1))] for i in range(room)]


def dumps(value: object) -> str:
    """JSON that every parser takes: arrays as lists; times that are infinite, and what is not a number, as null."""
    return json.dumps(_plain_json(value), indent=2, ensure_ascii=False)


def _plain_json(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _plain_json(v) for key, v in value.items()}
    if hasattr(value, "tolist"):  # of NumPy
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain_json(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
