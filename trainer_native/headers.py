"""Compiles an environment's header into a shared library that holds its table of functions."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from trainer_native import probe

CORE = Path(__file__).parent / "core"
#: As for the trainer itself, so that a header computes the same numbers in both.
FLAGS = ["-std=c++20", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
         "-fPIC", "-shared", "-fvisibility=hidden"]  # fmt: skip
#: A header that takes longer to compile is refused.
COMPILE_SECONDS = 120
COMPILERS = ("c++", "g++", "clang++")
NOT_FIELDS = {"static", "constexpr", "const", "using", "typedef", "struct", "union", "enum", "class", "friend",
              "virtual", "mutable", "volatile", "template", "return", "operator", "inline"}  # fmt: skip
ISAS = {  # what each instruction set needs, in the words of /proc/cpuinfo
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe",
    "x86-64-v2": "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
}


class HeaderError(ValueError):
    """An environment that cannot be used; the message is one line: which file, what is wrong, what to do."""


# -- instruction sets ------------------------------------------------------------------------------------------


@lru_cache
def machine_isas(cpuinfo: str | None = None) -> list[str]:
    """The instruction sets of this processor, best first, such as `["x86-64-v3", "x86-64-v2"]`; else `["plain"]`."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ["plain"]
    if cpuinfo is None:
        path = Path("/proc/cpuinfo")
        cpuinfo = path.read_text(errors="replace") if path.is_file() else ""
    line = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    flags = set(line[1].split()) if line else set()
    levels, found = list(ISAS), []
    for i, isa in enumerate(levels):  # each level includes those below it
        if all(set(ISAS[level].split()) <= flags for level in levels[i:]):
            found.append(isa)
    return found or ["plain"]


def march_flags(isa: str) -> list[str]:
    """The compiler's flags for an instruction set; none for `plain`."""
    return [] if isa == "plain" else [f"-march={isa}"]


# -- reading a header ------------------------------------------------------------------------------------------


def with_includes(path: Path) -> Iterator[Path]:
    """The file, and those it includes by quotes, from its own folder or from the core, each once."""
    seen, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        yield file
        for name in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', read(file), re.MULTILINE):
            found = next((folder / name for folder in (file.parent, CORE) if (folder / name).is_file()), None)
            if found:
                waiting.append(found.resolve())


def read(path: Path) -> str:
    """The text of a header. Raises HeaderError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise HeaderError(f"{path}: {reason}") from None


def abi() -> int:
    """The number of the table's layout."""
    return int(re.search(r"environment_abi = (\d+)", read(CORE / "environment.h"))[1])


def most_action_count() -> int:
    """The most numbers that an action may have."""
    return int(re.search(r"most_action_count = (\d+)", read(CORE / "shape.h"))[1])


def most_actions() -> int:
    """The most actions that the trainer takes."""
    return int(re.search(r"most_actions = (\d+)", read(CORE / "policy.h"))[1])


def source_hash(path: Path) -> str:
    """SHA-256, in hex, of what makes this environment: the text of the header (and of its own includes) and the ABI."""
    own = [file for file in with_includes(path) if file.parent != CORE.resolve()]
    digest = hashlib.sha256(f"{abi()}\n".encode())
    for file in own:
        digest.update(read(file).encode())
    return digest.hexdigest()


def pieces(text: str, separator: str, start: int) -> Iterator[tuple[int, str]]:
    """(offset, piece) between separators that stand outside all brackets; `start` is the offset of `text`."""
    depth = begin = 0
    for i, character in enumerate(text + separator):
        depth += (character in "([{") - (character in ")]}")
        if character == separator and depth == 0 or i == len(text):
            yield start + begin, text[begin:i]
            begin = i + 1


def without_comments(text: str) -> str:
    """The text with a space for each character of a comment, so that offsets stay."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)


def first_comment(path: Path) -> str:
    """The comment that begins a header, in one line."""
    found = []
    for line in read(path).splitlines():
        if not line.startswith("//"):
            break
        found.append(line.lstrip("/").strip())
    return " ".join(" ".join(found).split())


def fields(path: Path, struct: str) -> dict[str, str]:
    """Field name -> the comment that trails it, in the order of the struct's text. Raises HeaderError."""
    text = read(path)
    code = without_comments(text)
    head = re.search(rf"\bstruct\s+{struct}\s*\{{", code)
    if not head and (borrowed := re.search(rf"\busing\s+(?:{struct}\s*=\s*)?(\w+)::{struct}\s*;", code)):
        owner = next((file for file in with_includes(path) if file.stem == borrowed[1] and file != path), None)
        if owner:
            return fields(owner, struct)
    if not head:
        raise HeaderError(f"{path}: there is no `struct {struct} {{...}}`; see envs/cartpole.h for what a header holds")
    depth, end = 1, head.end()
    while depth and end < len(code):
        depth += (code[end] == "{") - (code[end] == "}")
        end += 1
    body = code[head.end() : end - 1]
    lines = text.splitlines()
    found = {}
    for offset, statement in pieces(body, ";", head.end()):
        lead = len(statement) - len(statement.lstrip())
        if not statement.strip():
            continue
        for i, (at, declarator) in enumerate(pieces(statement, ",", offset)):
            kind = r"(?P<type>(?:[A-Za-z_][\w:]*\s+)+)" if i == 0 else ""
            dimensions, value = r"(\[[^\]]*\]\s*)*", r"(=.*|\{.*\})?"
            shape = re.fullmatch(rf"\s*{kind}(?P<name>[A-Za-z_]\w*)\s*{dimensions}{value}", declarator, re.DOTALL)
            if not shape or (i == 0 and NOT_FIELDS & set(shape["type"].split())):
                shown = " ".join(statement.split())[:50]
                line = text.count("\n", 0, offset + lead) + 1
                raise HeaderError(f"{path}:{line}: struct {struct} holds plain fields only, like `float x, cells[9];`, "
                                  f"not `{shown}`")  # fmt: skip
            line = lines[text.count("\n", 0, at + shape.start("name"))]
            comment = re.search(r"//+<?(.*)$|/\*(.*?)\*/", line)
            found[shape["name"]] = (comment[1] or comment[2] or "").strip() if comment else ""
    return found


# -- compiling it ----------------------------------------------------------------------------------------------


#: The optional parts of a header: how their definition begins, and how it is written.
OPTIONAL = {
    "image": (r"\bsweep::Image\s+image\b", "constexpr sweep::Image image = {height, width, channels};"),
    "needs_memory": (r"\bbool\s+needs_memory\b", "constexpr bool needs_memory = true;"),
    "metric": (r"\bfloat\s+metric\s*\(", "SWEEP_FN float metric(const State&, const Params&)"),
    "picture": (r"\bsweep::Picture\s+picture\b", "constexpr sweep::Picture picture = {width, height};"),
}


def parts(path: Path) -> list[str]:
    """The optional parts that a header has. Raises HeaderError where one is there, but not as the table would find it."""
    own = without_comments(read(path))
    texts = [without_comments(read(file)) for file in with_includes(path) if file.parent != CORE.resolve()]
    code = "\n".join(t for t in texts if t == own or re.search(rf"\bnamespace\s+{path.stem}\b", t) or "using namespace" in own)
    found = []
    for part, (pattern, legal) in OPTIONAL.items():
        taken_over = rf"\busing\b[^;]*::{part}\b"
        alike = rf"\b(?!return\b)\w+\s+{part}\s*\(\s*const\s+State\b|\bconstexpr\b[^;{{}}()]*\b{part}\s*(\[\w*\]\s*)?[={{]"
        if re.search(pattern, code) or re.search(taken_over, own):
            found.append(part)
        elif other := re.search(alike, own):
            line = own.count("\n", 0, other.start()) + 1
            raise HeaderError(f"{path}:{line}: `{part}` is a part of a header that is written `{legal}`; name what is something else otherwise")
    if "picture" not in found and (line := line_of(path, "draw")):
        raise HeaderError(f"{path}:{line}: `draw` needs a picture to draw on: `{OPTIONAL['picture'][1]}`, the units it draws in")
    return found


def glue(path: Path, state: list[str], params: list[str]) -> str:
    """The C++ that joins a header and table.h."""
    lines = [f'#include "{CORE.resolve() / "environment.h"}"', f'#include "{CORE.resolve() / "math.h"}"',
             f'#include "{path}"', f"#define SWEEP_GAME {path.stem}",
             "#define SWEEP_STATE_FIELDS " + " ".join(f"X({name})" for name in state)]  # fmt: skip
    if params:
        lines.append("#define SWEEP_PARAMS_FIELDS " + " ".join(f"X({name})" for name in params))
    lines += [f"#define SWEEP_HAS_{part.upper()}" for part in parts(path)]
    return "\n".join([*lines, f'#include "{CORE.resolve() / "table.h"}"', ""])


def compiler() -> list[str]:
    """The C++ compiler as a command: $CXX, else the first that is on the path. Raises HeaderError."""
    if words := shlex.split(os.environ.get("CXX", "")):
        if shutil.which(words[0]):
            return words
        raise HeaderError(f"CXX names the compiler {words[0]!r}, which is not there; unset CXX or name another one")
    for name in COMPILERS:
        if shutil.which(name):
            return [name]
    raise HeaderError(f"no C++ compiler found (looked for {', '.join(COMPILERS)}): install one (apt install g++, "
                      "dnf install gcc-c++, on macOS xcode-select --install), or name it in CXX")  # fmt: skip


def cache() -> Path:
    """The folder of compiled headers: $SWEEP_CACHE, else ~/.cache/solve-sweep."""
    return Path(os.environ.get("SWEEP_CACHE") or Path.home() / ".cache" / "solve-sweep")


def line_of(path: Path, function: str) -> int | None:
    """The line on which a function of a header begins."""
    code = without_comments(read(path))
    found = re.search(rf"\b{function}\s*\([^;{{}}]*\)\s*\{{", code)
    return code.count("\n", 0, found.start()) + 1 if found else None


def excerpt(output: str, most: int = 12) -> str:
    """What the compiler said of its first error, with the lines it shows, as it said it."""
    lines = [line for line in output.splitlines() if not re.match(r"In file included from|\s+from .*[:,]$|compilation terminated", line)]
    first = next((i for i, line in enumerate(lines) if re.search(r":\d+:(\d+:)? (fatal )?error: ", line)), 0)
    if first and lines[first - 1].rstrip().endswith(":"):  # "In function ...:"
        first -= 1
    shown = [line for line in lines[first:] if not re.match(r"\d+ errors? generated", line)]
    return "\n".join(shown[:most])


#: The functions of a header, as they are called by table.h.
SIGNATURES = {
    "input": "SWEEP_FN constexpr sweep::Input input(int i)",
    "reset": "SWEEP_FN void reset(State&, const Params&, sweep::Rng&)",
    "step": "SWEEP_FN sweep::Outcome step(State&, const Params&, int action, sweep::Rng&)",
    "observe": "SWEEP_FN void observe(const State&, const Params&, float* observation)",  # or sweep::uint8*
    "metric": "SWEEP_FN float metric(const State&, const Params&)",
    "draw": "SWEEP_FN void draw(const State&, const Params&, sweep::Canvas&)",
}


def signature(path: Path, function: str) -> str:
    """How this header's function is written: `step` by its kind of actions."""
    code = without_comments(read(path))
    if function == "step":
        action = ("const float* action" if re.search(r"\bBounds\s+actions\s*\[", code) else
                  "const int* action" if re.search(r"\bactions\s*\[", code) else "int action")  # fmt: skip
        return SIGNATURES["step"].replace("int action", action)
    return SIGNATURES[function]


def first_error(path: Path, output: str) -> str:
    """The compiler's first complaint in one line, in our words where we know the mistake, with the line of their file."""
    match = re.search(r"^(.*?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", output, re.MULTILINE)
    if not match:
        return f"{path}: does not compile: {(output.strip().splitlines() or ['the compiler said nothing'])[0]}"
    file, line, message = match.groups()
    file = Path(file)
    if promise := re.search(r"static(?: assertion|_assert) failed(?: due to requirement '.*?')?:? \"?(.*?)\"?$", message):
        return f"{path}: {promise[1]}"
    missing = re.search(r"'(\w+)' is not a member of|no member named '(\w+)' in namespace", message)
    if file.is_file() and file.resolve().parent != CORE.resolve():
        return f"{path if file.resolve() == path.resolve() else file}:{line}: {message}"
    if missing:
        name = missing[1] or missing[2]
        wanted = f": `{signature(path, name)}`" if name in SIGNATURES else ""
        return f"{path}: namespace {path.stem} has no `{name}`{wanted}; see envs/cartpole.h for what a header holds"
    code = without_comments(read(path))
    if (more := code.count("{") - code.count("}")) != 0:
        return f"{path}: has {abs(more)} {'{' if more > 0 else '}'} too many; each {{ has its }}, also that of the namespace"
    called = re.search(r"\bgame::(\w+)\(", output[match.end() :])
    if called and called[1] in SIGNATURES:
        line = line_of(path, called[1])
        return f"{path}{f':{line}' if line else ''}: `{called[1]}` does not fit: {message}; legal is `{signature(path, called[1])}`"
    theirs = re.search(rf"^{re.escape(str(path))}:(\d+):", output, re.MULTILINE)  # a note that points into their file
    place = f"{path}:{theirs[1]}" if theirs else f"{path}"
    return f"{place}: does not fit the table of an environment: {message}"


def cached(stem: str, suffix: str, key: str, make: Callable[[Path], None]) -> Path:
    """The file of that key in the cache; `make(path)` writes it where it is not there yet. Raises HeaderError.

    It is written under another name and renamed, so processes that make the same file at once do not disturb each other.
    """
    kept = cache() / f"{stem}-{key[:24]}{suffix}"
    if kept.is_file():
        return kept
    try:
        cache().mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f"{stem}-", suffix=".tmp", dir=cache())
        os.close(handle)
    except OSError as error:
        raise HeaderError(f"{cache()}: cannot be written ({error.strerror}); compiled environments go there: "
                          "name another folder in SWEEP_CACHE") from None  # fmt: skip
    try:
        make(Path(temporary))
        os.chmod(temporary, 0o755)
        os.replace(temporary, kept)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return kept


def run_compiler(arguments: list[str], source: str = "", seconds: float | None = None) -> subprocess.CompletedProcess[str]:
    """The compiler, to its end. Where that takes too long (TimeoutExpired) or is interrupted, what it has started ends with it."""
    running = subprocess.Popen([*compiler(), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, "LC_ALL": "C"}, start_new_session=True)  # fmt: skip
    try:
        out, said = running.communicate(source, timeout=seconds)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        raise
    if running.returncode and not said.strip():
        said = f"{shlex.join(compiler())} ended with exit status {running.returncode} and said nothing: is it a C++ compiler?"
    return subprocess.CompletedProcess(running.args, running.returncode, out, said)


def compiled(path: Path, state: list[str], params: list[str], flags: list[str], library: Path) -> None:
    """Compiles a header into a shared library. Raises HeaderError, with what the compiler said as a note."""
    try:
        done = run_compiler([*flags, "-Wfatal-errors", "-iquote", str(CORE.resolve()), "-x", "c++", "-", "-o", str(library)],
                            glue(path, state, params), COMPILE_SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HeaderError(f"{path}: does not compile within {COMPILE_SECONDS} s; make its tables smaller") from None
    if done.returncode:
        error = HeaderError(first_error(path, done.stderr))
        if re.match(r".*?:\d+: ", str(error)):  # a place in their file, not a part that is missing
            error.add_note(excerpt(done.stderr))
        raise error


def compiler_key(flags: list[str]) -> Any:
    """A hash to go on with: of the compiler, where it is and how old, and the flags."""
    command = compiler()
    program = Path(shutil.which(command[0])).resolve()
    stat = program.stat()
    return hashlib.sha256(repr((flags, command, str(program), stat.st_mtime_ns, stat.st_size)).encode())


def build(path: Path, state: list[str], params: list[str], isa: str, flags: list[str] = FLAGS, play: bool = True) -> Path:
    """The shared library of a header, compiled now (in a second) or found in the cache. Raises HeaderError.

    With `play`, only a library that has passed `probe.fault` enters the cache. Its name carries a hash of all it depends on.
    """
    flags = [*flags, *march_flags(isa)]
    key = compiler_key(flags)
    key.update(repr((path.stem, state, params, play)).encode())
    for file in (*with_includes(path), *with_includes((CORE / "table.h").resolve()), CORE / "math.h", Path(probe.__file__)):
        key.update(read(file).encode())

    def make(library: Path) -> None:
        compiled(path, state, params, flags, library)
        if play and (fault := probe.fault(library)):
            raise HeaderError(f"{path}: {fault}")

    return cached(path.stem, ".so", key.hexdigest(), make)
