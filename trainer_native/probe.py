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
_METRIC = ctypes.CFUNCTYPE(None, _P, _P, _P, ctypes.c_int)
_DRAW = ctypes.CFUNCTYPE(None, _P, _P, _P)


class Field(ctypes.Structure):  # Field in core/environment.h
    _fields_ = [("name", ctypes.c_char_p), ("offset", ctypes.c_int), ("count", ctypes.c_int), ("type", ctypes.c_char)]


class Bounds(ctypes.Structure):  # Bounds in core/environment.h
    _fields_ = [("low", ctypes.c_double), ("high", ctypes.c_double)]


class Table(ctypes.Structure):  # EnvironmentTable in core/environment.h
    _fields_ = [
        ("abi", ctypes.c_int), ("name", ctypes.c_char_p), ("observation_size", ctypes.c_int), ("observation_bytes", ctypes.c_int),
        ("image", ctypes.c_int * 3), ("needs_memory", ctypes.c_int), ("actions", ctypes.c_int), ("action_count", ctypes.c_int),
        ("choices", ctypes.POINTER(ctypes.c_int)), ("action_bounds", ctypes.POINTER(Bounds)),
        ("longest_episode", ctypes.c_int), ("state_size", ctypes.c_int), ("params_size", ctypes.c_int),
        ("state_fields", ctypes.c_int), ("params_fields", ctypes.c_int), ("state_field", ctypes.POINTER(Field)),
        ("params_field", ctypes.POINTER(Field)), ("params_bounds", _P), ("default_params", _P), ("inputs", _P),
        ("picture", ctypes.c_float * 2),
        ("reset", _RESET), ("step", _STEP), ("observe", _OBSERVE), ("metric", _METRIC), ("draw", _DRAW),
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
    size, wide = table.observation_size, 1 if table.observation_bytes else 4   # bytes of a number
    seen, observation = _guarded(wide * size)
    blank = seen.raw
    states, state = _guarded(table.state_size)
    behind = GUARD + table.state_size
    ctypes.memset(state, 0, table.state_size)
    outcome, rng, draw = _Outcome(), ctypes.c_uint64(1), 1
    action = ((ctypes.c_float if table.action_bounds else ctypes.c_int) * table.action_count)()
    guards = states.raw[:GUARD], states.raw[behind:]

    def observed(step: int) -> Iterator[str]:
        ctypes.memmove(seen, blank, len(blank))
        table.observe(state, table.default_params, observation, size, 1)
        raw = seen.raw
        if raw[:GUARD] != blank[:GUARD]:
            yield "observe writes before observation[0]"
        if raw[GUARD + wide * size :] != blank[GUARD + wide * size :]:
            at = [slice(GUARD + wide * i, GUARD + wide * (i + 1)) for i in range(size, (len(raw) - GUARD) // wide)]
            wrong = [size + i for i, where in enumerate(at) if raw[where] != blank[where]]
            yield f"observe writes observation[{wrong[0]}]{' and beyond' * (len(wrong) > 1)}; observation_size is {size}"
        if table.observation_bytes:
            unwritten = [i for i in range(size) if raw[GUARD + i] == blank[GUARD + i]]
            if step == 0 and unwritten:   # a byte may happen to be as before: written again over other bytes it is not
                ctypes.memset(observation, 0xAA, size)
                table.observe(state, table.default_params, observation, size, 1)
                raw = seen.raw
                for i in unwritten:
                    if raw[GUARD + i] == 0xAA:
                        yield f"observe leaves observation[{i}] unwritten; observation_size is {size}"
            return
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
        for i in range(table.action_count):
            draw = (draw * 6364136223846793005 + 1442695040888963407) % 2**64
            if table.action_bounds:
                low, high = table.action_bounds[i].low, table.action_bounds[i].high
                action[i] = low + (high - low) * (draw >> 33) / 2**31
            else:
                action[i] = (draw >> 33) % table.choices[i]
        table.step(state, table.default_params, ctypes.addressof(action), ctypes.addressof(rng),
                   ctypes.addressof(outcome), 1)  # fmt: skip
        yield from overrun("step")
        if not math.isfinite(outcome.reward):
            yield f"step gives a reward that is {_not_finite(outcome.reward)} after {_env_steps(step + 1)}"
        yield from observed(step + 1)
        ended = outcome.terminated or outcome.truncated
        if ended and table.metric:
            metric = ctypes.c_float(-1.0)
            table.metric(state, table.default_params, ctypes.addressof(metric), 1)
            if not 0.0 <= metric.value <= 1.0:
                yield f"metric is {metric.value:g} at the end of an episode; legal is 0 to 1"


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
