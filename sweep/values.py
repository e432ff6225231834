"""What the database keeps of a value: plain numbers, text, JSON, learning curves."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
from typing import Any

import numpy as np


class StoreError(ValueError):
    """The database cannot do what was asked; the message is the one line for the user."""


def now(ago: float = 0.0) -> str:
    """UTC, ISO 8601, `ago` seconds back."""
    return (datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ago)).isoformat(timespec="microseconds")


def row_of(**values: Any) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items()}


def plain(value: Any) -> Any:
    """What SQLite keeps of a value: no NumPy scalars, no number that is not finite, no text that UTF-8 cannot write."""
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else None
    if kind is str:
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if kind is int:
        if not -(2**63) <= value < 2**63:
            raise StoreError(f"{value} does not fit a database; whole numbers end at 2^63 - 1")
        return value
    if value is None or kind is bool:
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    return str(value)


def _json_ready(value: Any) -> Any:
    """For json.dumps: what it does not know by itself."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)
    return str(value)


def strict_json(value: Any, where: str) -> str:
    try:
        return json.dumps(value, allow_nan=False, default=_json_ready)
    except ValueError as error:
        raise StoreError(f"{where} cannot be stored: {error}") from error


def json_text(value: Any) -> str:
    """As JSON, null for numbers that are not finite."""
    return json.dumps(json.loads(json.dumps(value, default=_json_ready), parse_constant=lambda constant: None))


@functools.cache
def _curve_template(points: int) -> str:
    return f"[{','.join(['[%.6f,%.6f,%.0f,%.9g]'] * points)}]"


def curve_text(points: np.ndarray) -> str:
    """[points, 4] as JSON, 0.1 ms for 128 points where json.dumps takes 0.4; inf as 9e999: readers make it inf."""
    if not len(points):
        return "[]"
    points = np.asarray(points, np.float64).reshape(-1, 4)
    text = _curve_template(len(points)) % tuple(points.ravel().tolist())
    return text if np.isfinite(points).all() else text.replace("nan", "null").replace("inf", "9e999")
