"""Plays a header's game at random under the sanitizers, by core/fuzz.cpp: what it does wrong, and what a policy would see.

`play` gives plain findings; `sweep.check` puts them into words.
"""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from trainer_native import environments, headers

#: Fixed numbers stay the same under them: no optimisation that the flags of a run forbid.
_EXACT = [flag for flag in headers.FLAGS if flag != "-O3"]
_SANITIZE = ["-fsanitize=address,undefined,float-cast-overflow", "-fsanitize-recover=address", "-fno-omit-frame-pointer"]
#: A local variable that is read before it is written holds other bytes than in a plain build.
_PATTERN = "-ftrivial-auto-var-init=pattern"
_OPTIONS = {
    "ASAN_OPTIONS": "halt_on_error=0:detect_leaks=0:handle_sigfpe=1:color=never",
    "UBSAN_OPTIONS": "halt_on_error=0:print_stacktrace=0:color=never",
}
#: CPU seconds after which a call of the header counts as one that never returns.
HANG_SECONDS = 10
#: Env steps of a longest episode up to which a copy is played to its end, whatever was asked for.
LONGEST_PLAYED = 2_000_000
_SPEED_COPIES, _SPEED_MILLISECONDS = 64, 300
_MOST_STDERR = 1 << 20

Finding = dict[str, Any]


@functools.lru_cache
def _takes(command: tuple[str, ...], flag: str) -> bool:
    """Whether the compiler knows a flag."""
    done = subprocess.run([*command, flag, "-fsyntax-only", "-x", "c++", "-"], input="", capture_output=True, text=True, check=False)
    return done.returncode == 0


def driver(sanitised: bool) -> Path | None:
    """core/fuzz.cpp as a program (3 s), or as it was built before; None where there are no working sanitizers."""
    source = headers.CORE / "fuzz.cpp"
    weak = ["-Wl,-undefined,dynamic_lookup"] if platform.system() == "Darwin" else ["-ldl"]
    flags = ["-std=c++20", "-O1"]
    key = headers.compiler_key([*flags, *_SANITIZE, *weak])
    for file in headers.with_includes(source.resolve()):
        key.update(headers.read(file).encode())

    def run(*arguments: str) -> str | None:
        done = headers.run_compiler(list(arguments))
        return done.stderr if done.returncode else None

    def compile_(target: Path) -> None:
        if said := run(*flags, "-iquote", str(headers.CORE), "-c", "-x", "c++", str(source), "-o", str(target)):
            raise headers.HeaderError(f"{source}: {' '.join(said.splitlines()[:1])}")

    def link(target: Path) -> None:
        if said := run(*(_SANITIZE if sanitised else []), str(plain), "-o", str(target), *weak):
            raise headers.HeaderError(f"{source}: {' '.join(said.splitlines()[-1:])}")

    plain = headers.cached("fuzz", ".o", key.hexdigest(), compile_)
    try:
        program = headers.cached("fuzz", ".sanitised" if sanitised else ".plain", key.hexdigest(), link)
    except headers.HeaderError:
        if sanitised:
            return None
        raise
    if sanitised and subprocess.run([program], env={**os.environ, **_OPTIONS}, capture_output=True, check=False).returncode != 5:
        return None  # it is there and does not start
    return program


class Library:
    """A header's library and what plays it; each `part` is a process of its own."""

    def __init__(self, path: Path, seed: int, sanitised: bool):
        self.path, self.seed = path, seed
        self.program = driver(sanitised)
        self.sanitised = sanitised and self.program is not None
        self.program = self.program or driver(False)
        flags = headers.FLAGS
        if sanitised:
            flags = [*_EXACT, "-O0", "-g", *(_SANITIZE if self.sanitised else [])]
            flags += [_PATTERN] if _takes(tuple(headers.compiler()), _PATTERN) else []
        state, params = environments.fields_of(path)
        self.library = headers.build(path, list(state), list(params), headers.machine_isas()[0], flags, play=False)

    def part(self, name: str, env_steps: int = 0, copies: int = 1, trap: str = "") -> list[Finding]:
        """What a part of core/fuzz.cpp writes, and after it what the sanitizers say and how the process ended, if it did."""
        command = [str(self.program), str(self.library), name, str(env_steps), str(copies), str(self.seed), str(HANG_SECONDS)]
        with tempfile.TemporaryFile() as errors:
            done = subprocess.run(command, env={**os.environ, **_OPTIONS, "SWEEP_TRAP": trap}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=errors, check=False)  # fmt: skip
            errors.seek(0)
            said = errors.read(_MOST_STDERR).decode(errors="replace")
        found = [json.loads(line) for line in done.stdout.decode().splitlines()]
        ended = any("ended" in finding for finding in found)
        found += self._sanitizers(said)
        if not ended and not any(finding.get("fault") in ("hang", "dead") for finding in found):
            found.append({"fault": "died", "status": done.returncode})
        for finding in found:
            finding["part"] = name
        return found

    def _sanitizers(self, said: str) -> list[Finding]:
        found: list[Finding] = []
        for file, line, message in re.findall(r"^(\S.*?):(\d+):\d+: runtime error: (.*)$", said, re.MULTILINE):
            found.append({"fault": "undefined", "message": message, "line": self._line([(file, int(line))])})
        for report in re.split(r"^=+$", said, flags=re.MULTILINE):
            if kind := re.search(r"ERROR: AddressSanitizer: (\S+)", report):
                access = re.search(r"^(READ|WRITE) of size (\d+)", report, re.MULTILINE)
                fatal = access is None
                found.append({"fault": "dead" if fatal else "address", "kind": kind[1], "line": self._line(self._frames(report)),
                              "access": access[1].lower() + "s" if access else None, "bytes": int(access[2]) if access else None,
                              "who": self._who(report)})  # fmt: skip
            elif "#0 " in report and any(name in report for name in ("table::step", "table::reset", "table::observe", "table::metric", "table::draw")):
                found.append({"stack": self._line(self._frames(report))})  # of a call that does not return
        return found

    def _who(self, report: str) -> str | None:
        found = re.search(r"\btable::(reset|step|observe|metric|draw)", report)
        return found[1] if found else None

    def _frames(self, report: str) -> list[tuple[str, int]]:
        """(file, line) of the calls in the first stack of a report, the innermost first."""
        frames = []
        for number, frame in re.findall(r"^\s+#(\d+) (.*)$", report, re.MULTILINE):
            if number == "0" and frames:
                break  # another stack: where the memory is from
            if place := re.search(r"\s(/\S.*?):(\d+)(:\d+)?$", frame):
                frames.append((place[1], int(place[2])))
            elif (place := re.search(r"\((/\S+)\+(0x[0-9a-f]+)\)", frame)) and Path(place[1]) == self.library:
                frames += _addr2line(place[1], place[2])
        return frames

    def _line(self, frames: list[tuple[str, int]]) -> tuple[str, int] | None:
        """The innermost place in their own files."""
        own = {str(file) for file in headers.with_includes(self.path) if file.parent != headers.CORE.resolve()}
        return next(((file, line) for file, line in frames if file in own), None)


def _addr2line(library: str, address: str) -> list[tuple[str, int]]:
    """For a sanitizer that finds no symbolizer."""
    if not shutil.which("addr2line"):
        return []
    done = subprocess.run(["addr2line", "-i", "-e", library, address], capture_output=True, text=True, check=False)
    return [(file, int(line)) for file, line in re.findall(r"^(.*):(\d+)", done.stdout, re.MULTILINE)]


def play(env: str | Path, env_steps: int = 100_000, seed: int = 0, say=lambda line: None) -> dict[str, Any]:
    """Findings of every part, with the header's path: {path, sanitised, copies, env_steps, about, findings, speed}.

    Raises HeaderError where the header does not compile.
    """
    path = environments.path_of(env)
    say(f"compiling {path.name}")
    watched = Library(path, seed, sanitised=True)
    about = watched.part("describe")
    if "abi" not in about[0]:
        return {"path": path, "sanitised": watched.sanitised, "copies": 0, "env_steps": 0, "about": None, "findings": about,
                "speed": None}  # fmt: skip
    about = about[0]
    longest = about["longest_episode"]
    copies = max(1, min(8, env_steps // (longest + 1)))
    if longest <= LONGEST_PLAYED:
        env_steps = max(env_steps, longest + 1)
    say(f"playing {env_steps:,} env steps")
    found = watched.part("play", env_steps, copies)
    if any(finding.get("fault") == "hang" for finding in found):
        return {"path": path, "sanitised": watched.sanitised, "copies": copies, "env_steps": env_steps, "about": about,
                "findings": found, "speed": None}  # fmt: skip
    for kind, value in (("nan", "not a number"), ("infinite", "infinite")):
        if any(_is(finding.get("value"), kind) for finding in found):
            say(f"looking for what first is {value}")
            traps = [f for f in watched.part("play", env_steps, copies, trap=kind) if f.get("fault") == "dead" and f["line"]]
            found += [{"origin": kind, "line": traps[0]["line"]}] if traps else []
    if about["params"]:
        say("playing with other params")
        found += watched.part("params", env_steps // 2, 16)
    say("playing the same seed again")
    few = min(env_steps, 8_000)
    repeated = watched.part("repeat", few, 8)
    found += repeated + watched.part("fills", few, 8)
    say("playing on after the end of episodes")
    found += watched.part("after", max(env_steps // 10, min(env_steps, 2 * longest)), 1)
    speed = None
    if not any("fault" in finding for finding in found):
        plain = Library(path, seed, sanitised=False)
        again = plain.part("repeat", few, 8)
        hashes = {finding["trace"] for finding in (*repeated, *again) if "trace" in finding}
        if len(hashes) > 1:
            found.append({"fault": "build", "part": "repeat"})
        found += [finding for finding in again if "fault" in finding]
        say("measuring its speed")
        found += (measured := plain.part("speed", _SPEED_MILLISECONDS, _SPEED_COPIES))
        speed = next((finding["env_steps_per_second"] for finding in measured if "env_steps_per_second" in finding), None)
    return {"path": path, "sanitised": watched.sanitised, "copies": copies, "env_steps": env_steps, "about": about,
            "findings": found, "speed": speed}  # fmt: skip


def _is(value: Any, kind: str) -> bool:
    if not isinstance(value, float):
        return False
    return math.isnan(value) if kind == "nan" else math.isinf(value)
