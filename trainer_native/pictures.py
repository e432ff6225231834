"""Pictures of a game's states: what a header's draw() puts on its canvas, as marks or as pixels."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from trainer_native.environments import Environment
from trainer_native.probe import Table

#: One mark on a canvas, as in core/environment.h. `shape` 0: rectangle (x, y, w, h), 1: disc (centre x, y, radius w),
#: 2: line (from x, y to w, h, thickness).
MARK = np.dtype([("shape", "i4"), ("x", "f4"), ("y", "f4"), ("w", "f4"), ("h", "f4"), ("thickness", "f4"), ("colour", "u4")])
#: The most marks of one picture; a header's further ones are dropped.
MOST_MARKS = 4096
#: Pixels of the longer side of a picture whose units are coarser than pixels.
LONGEST = 480


class _Canvas(ctypes.Structure):
    _fields_ = [("marks", ctypes.c_void_p), ("count", ctypes.c_int), ("room", ctypes.c_int)]


def marks(env: Environment, state: np.void, params: bytes) -> np.ndarray:
    """What draw() makes of a state: MARK [count], later ones on top, in the units of env.picture (width, height; y down).

    Raises ValueError where the header has no draw().
    """
    if not env.picture:
        raise ValueError(f"{env.name} has no picture: its header has no draw()")
    room, states = np.zeros(MOST_MARKS, MARK), np.asarray(state).reshape(1).copy()
    canvas = _Canvas(room.ctypes.data, 0, MOST_MARKS)
    Table.from_address(env.table_address).draw(states.ctypes.data, params, ctypes.byref(canvas))
    return room[: canvas.count].copy()


def picture(env: Environment, state: np.void, params: bytes) -> np.ndarray:
    """A state as pixels: uint8 [height, width, 3], the longer side LONGEST pixels or, where finer, one per unit."""
    width, height = env.picture
    scale = max(1.0, LONGEST / max(width, height))
    pixels = np.zeros((round(height * scale), round(width * scale), 3), np.uint8)
    for mark in marks(env, state, params):
        _paint(pixels, *(float(mark[name]) * scale for name in ("x", "y", "w", "h", "thickness")), shape=int(mark["shape"]),
               colour=(int(mark["colour"]) >> 16 & 255, int(mark["colour"]) >> 8 & 255, int(mark["colour"]) & 255))  # fmt: skip
    return pixels


def _paint(pixels: np.ndarray, x: float, y: float, w: float, h: float, thickness: float, *, shape: int, colour: Any) -> None:
    if not np.isfinite((x, y, w, h, thickness)).all():
        return
    half = thickness / 2
    left, right, top, bottom = {0: (x, x + w, y, y + h), 1: (x - w, x + w, y - w, y + w)}.get(
        shape, (min(x, w) - half, max(x, w) + half, min(y, h) - half, max(y, h) + half))
    rows, columns = (slice(*(int(min(max(round(at), 0), end)) for at in (low, high)))
                     for low, high, end in ((top, bottom, pixels.shape[0]), (left, right, pixels.shape[1])))  # fmt: skip
    area = pixels[rows, columns]
    if shape == 0 or not area.size:
        area[:] = colour
        return
    ys, xs = np.mgrid[rows, columns] + 0.5   # centres of the pixels
    if shape == 1:
        inside = (xs - x) ** 2 + (ys - y) ** 2 <= w * w
    else:   # as far from the segment as half its thickness
        along_x, along_y = w - x, h - y
        at = np.clip(((xs - x) * along_x + (ys - y) * along_y) / max(along_x**2 + along_y**2, 1e-12), 0, 1)
        inside = (xs - x - at * along_x) ** 2 + (ys - y - at * along_y) ** 2 <= max(half, 0.5) ** 2
    area[inside] = colour
