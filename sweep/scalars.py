"""Single values of a study's file: durations, counts, words, each checked; an error is one line that says what is legal."""

from __future__ import annotations

import re
from typing import Any

from sweep import space
from sweep.tomlfiles import StudyError
from trainer_native import config

_DURATIONS = '"90s", "15m", "1h30m"'
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}


def parse_duration(value: str | float) -> float:
    """Seconds of "90s", "15m", "1h30m", "2.5s", or of a number, which is seconds already. Raises StudyError."""
    error = StudyError(f"{repr(value)[:60]} is not a duration; legal are such as {_DURATIONS}")
    if isinstance(value, str):
        value = " ".join(value.split())
        number = r"(\d+(?:\.\d*)?|\.\d+)"
        if re.fullmatch(number, value, re.ASCII):
            return float(value)
        found = re.fullmatch("".join(rf"(?:{number} ?{unit} ?)?" for unit in _SECONDS), value, re.ASCII)
        parts = found.groups() if found else ()
        value = sum(float(part) * size for part, size in zip(parts, _SECONDS.values()) if part) if any(parts) else None
    if not space.is_finite(value) or value < 0:
        raise error
    return float(value)


def duration(value: Any, subject: str) -> float:
    """Seconds. `subject` (file, table and key, or an option) begins the line of a StudyError; so in those below."""
    try:
        return parse_duration(value)
    except StudyError:
        raise StudyError(f"{subject} is {space.brief(value)}; legal is a duration such as {_DURATIONS}") from None


def above_zero(value: Any, subject: str) -> float:
    if (seconds := duration(value, subject)) == 0:
        raise StudyError(f"{subject} is {space.brief(value)}; legal is a duration above zero")
    return seconds


def count(value: Any, subject: str, most: int = 2**63 - 1) -> int:
    if not space.is_finite(value) or value != int(value) or not 1 <= value <= most:
        legal = "at least 1" if most == 2**63 - 1 else f"from 1 to {most:,}"
        raise StudyError(f"{subject} is {space.brief(value)}; legal is a whole number, {legal}")
    return int(value)


def one_of(value: Any, subject: str, legal: tuple[str, ...]) -> str:
    if value not in legal:
        hint = config.closest(value, legal) if isinstance(value, str) else ""
        raise StudyError(f"{subject} is {space.brief(value)}.{hint} Legal are {', '.join(legal)}")
    return value


def word(value: Any, subject: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise StudyError(f"{subject} is {space.brief(value)}; legal is a name or a path, in quotes")
    return value
