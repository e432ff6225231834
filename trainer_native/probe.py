"""Plays a freshly compiled environment for some env steps, in a process of its own, and says what it does wrong.

The trainer's buffers are as large as a header promises: an observation_size that is too small overwrites what lies
behind, one that is too large feeds the network what was never written. Neither shows in the compiler.
`headers.build` runs this file as a script, so it needs nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ENV_STEPS = 300
LIMIT_SECONDS = 20.0
GUARD = 4096  # bytes before and behind each buffer
UNWRITTEN = b"\xd5\xee\xc5\x7f"  # a float32 that is not a number, and that no arithmetic makes

_P = ctypes.c_void_p
_RESET = ctypes.CFUNCTYPE(None, _P, _P, _P, ctypes.c_int)
_STEP = ctypes.CFUNCTYPE(None, _P, _P, _P, _P, _P, ctypes.c_int)
_OBSERVE = ctypes.CFUNCTYPE(None, _P, _P, _P, ctypes.c_int, ctypes.c_int)


class Field(ctypes.Structure):  # Field in core/environment.h
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_int), ("count", ctypes.c_int), ("type", ctypes.c_char)]


class Table(ctypes.Structure):  # EnvironmentTable in core/environment.h
    _fields_ = [
        ("abi", ctypes.c_int), ("name", ctypes.c_char_p), ("observation_size", ctypes.c_int), ("actions", ctypes.c_int),
        ("longest_episode", ctypes.c_int), ("state_size", ctypes.c_int), ("params_size", ctypes.c_int),
        ("state_fields", ctypes.c_int), ("params_fields", ctypes.c_int), ("state_field", ctypes.POINTER(Field)),
        ("params_field", ctypes.POINTER(Field)), ("params_bounds", _P), ("default_params", _P), ("inputs", _P),
        ("reset", _RESET), ("step", _STEP), ("observe", _OBSERVE),
    ]  # fmt: skip


class _Outcome(ctypes.Structure):  # Outcome in core/environment.h
    _fields_ = [("reward", ctypes.c_float), ("terminated", ctypes.c_bool), ("truncated", ctypes.c_bool)]


def load(library: str) -> tuple[ctypes.CDLL, int]:
    """The library of a header, and the address of its table."""
    opened = ctypes.CDLL(library)
    opened.sweep_environment.restype = _P
    return opened, opened.sweep_environment()


def fault(library: str | Path) -> str | None:
    """What is wrong with the environment in this library, in words that follow the header's path; None if nothing."""
    command = [sys.executable, "-I", "-S", __file__, str(library)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"it did not return within {LIMIT_SECONDS:g} s while {ENV_STEPS} env steps were played"
    verdict = done.stdout.decode(errors="replace").splitlines()
    if done.returncode == 0 and verdict:
        return None if verdict[0] == "ok" else verdict[0]
    if done.returncode < 0:
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = str(-done.returncode)
        return f"it crashed (signal {name}) while {ENV_STEPS} env steps were played"
    return f"it ended its process (exit status {done.returncode}) while {ENV_STEPS} env steps were played"


# -- in the process of its own -----------------------------------------------------------------------------------


def _guarded(size: int) -> tuple[ctypes.Array, int]:
    """A buffer of `size` bytes between two guards, all of them UNWRITTEN, and the address of what is guarded."""
    buffer = (ctypes.c_char * (2 * GUARD + -(-size // 16) * 16))()
    ctypes.memmove(buffer, UNWRITTEN * (len(buffer) // 4), len(buffer))
    return buffer, ctypes.addressof(buffer) + GUARD


def _mistakes(table: Table) -> Iterator[str]:
    """What goes wrong with default params and random actions, each thing as it is met."""
    size = table.observation_size
    seen, observation = _guarded(4 * size)
    blank = seen.raw
    states, state = _guarded(table.state_size)
    behind = GUARD + table.state_size
    ctypes.memset(state, 0, table.state_size)
    outcome, action, rng, draw = _Outcome(), ctypes.c_int(0), ctypes.c_uint64(1), 1
    guards = states.raw[:GUARD], states.raw[behind:]

    def observed(step: int) -> Iterator[str]:
        ctypes.memmove(seen, blank, len(blank))
        table.observe(state, table.default_params, observation, size, 1)
        raw = seen.raw
        if raw[:GUARD] != blank[:GUARD]:
            yield "observe writes before observation[0]"
        if raw[GUARD + 4 * size :] != blank[GUARD + 4 * size :]:
            end = len(raw)
            wrong = [i for i in range(size, (end - GUARD) // 4) if raw[GUARD + 4 * i : GUARD + 4 * i + 4] != UNWRITTEN]
            yield f"observe writes observation[{wrong[0]}]{' and beyond' * (len(wrong) > 1)}; observation_size is {size}"
        values = (ctypes.c_float * size).from_address(observation)
        for i, value in enumerate(values):
            if not math.isfinite(value):
                if raw[GUARD + 4 * i : GUARD + 4 * i + 4] == UNWRITTEN:
                    yield f"observe leaves observation[{i}] unwritten; observation_size is {size}"
                yield f"observation[{i}] is {_not_finite(value)} after {_env_steps(step)}"

    def overrun(who: str) -> Iterator[str]:
        if (states.raw[:GUARD], states.raw[behind:]) != guards:
            yield f"{who} writes outside State: an index is beyond an array's end"

    ended = True
    for step in range(ENV_STEPS):
        if ended:
            table.reset(state, table.default_params, ctypes.addressof(rng), 1)
            yield from overrun("reset")
            yield from observed(step)
        draw = (draw * 6364136223846793005 + 1442695040888963407) % 2**64
        action.value = (draw >> 33) % table.actions
        table.step(state, table.default_params, ctypes.addressof(action), ctypes.addressof(rng),
                   ctypes.addressof(outcome), 1)  # fmt: skip
        yield from overrun("step")
        if not math.isfinite(outcome.reward):
            yield f"step gives a reward that is {_not_finite(outcome.reward)} after {_env_steps(step + 1)}"
        yield from observed(step + 1)
        ended = outcome.terminated or outcome.truncated


def _env_steps(n: int) -> str:
    return f"{n} env step{'s' * (n != 1)}"


def _not_finite(value: float) -> str:
    return "not a number" if math.isnan(value) else "infinite"


def main(library: str) -> None:
    """Writes `ok` or the first mistake to stdout; what the header itself prints goes nowhere."""
    if os.name == "posix":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    report, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    _, address = load(library)
    verdict = next(_mistakes(Table.from_address(address)), "ok")
    os.write(report, verdict.encode())
    os._exit(0)  # at once: no code of the header runs any more


if __name__ == "__main__":
    main(sys.argv[1])
