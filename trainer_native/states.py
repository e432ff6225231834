"""A run's state as bytes that another process can go on from: what run it belongs to, and proof that it is whole.

A label of plain JSON, then the trainer's own bytes, then a checksum over both. The checksum finds accidents, not malice:
like a program, a state should come from where you trust it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

MAGIC = b"sweeprun"
_LENGTH = struct.Struct("<I")
_CHECKSUM = 32


def pack(label: dict[str, Any], body: bytes) -> bytes:
    """The state of the run that `label` describes: {semantics, fma, layout, env, environment, params, seed, solve}."""
    text = json.dumps(label).encode()
    whole = b"".join((MAGIC, _LENGTH.pack(len(text)), text, body))
    return whole + hashlib.sha256(whole).digest()


def unpack(state: bytes, label: dict[str, Any], size: int) -> bytes:
    """The trainer's own `size` bytes of a state. ValueError where it is damaged, or not of the run that `label` describes."""
    if not isinstance(state, (bytes, bytearray, memoryview)) or bytes(state[: len(MAGIC)]) != MAGIC:
        raise ValueError("this is not the state of a run: pass a Run's state, bytes, as it was")
    state, start = bytes(state), len(MAGIC) + _LENGTH.size
    if len(state) < start + _CHECKSUM or hashlib.sha256(state[:-_CHECKSUM]).digest() != state[-_CHECKSUM:]:
        raise ValueError(f"the state is damaged ({len(state)} bytes, of which some are missing or changed): it cannot be resumed")
    body = start + _LENGTH.unpack_from(state, len(MAGIC))[0]
    found = json.loads(state[start:body])
    if difference := _difference(found, label):
        raise ValueError(f"the state is {difference}")
    if len(state) - body - _CHECKSUM != size:
        raise ValueError(f"the state is {_of_another_trainer('another size')}")
    return state[body:-_CHECKSUM]


def _of_another_trainer(what: str) -> str:
    return f"of another trainer ({what}): resume it with the build that made it, or train anew"


def _difference(found: dict[str, Any], label: dict[str, Any]) -> str | None:
    """What of a state is not as `label` has it, the gravest first."""
    if found["semantics"] != label["semantics"]:
        return _of_another_trainer(f"semantics {found['semantics']}, and this one's are {label['semantics']}")
    if found["fma"] != label["fma"]:
        built = {True: "with", False: "without"}
        return _of_another_trainer(f"{built[found['fma']]} fused multiply-add, and this one is {built[label['fma']]}")
    if found["env"] != label["env"]:
        return f"of a run in {found['env']}, not in {label['env']}"
    if found["environment"] != label["environment"]:
        return f"of a run in {found['env']} as its header was before it was edited: it cannot be resumed"
    for kind in ("params", "solve"):
        for name in {**found[kind], **label[kind]}:
            before, now = (of[kind].get(name, "absent") for of in (found, label))
            if before != now:
                return f"of a run with {name} {before!r}, not {now!r}"
    if found["seed"] != label["seed"]:
        return f"of a run with seed {found['seed']}, not {label['seed']}"
    if found["layout"] != label["layout"]:
        return _of_another_trainer("another layout")
    return None
