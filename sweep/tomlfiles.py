"""The TOML files of studies and spaces: where they are, and what they hold."""

from __future__ import annotations

import functools
import os
import tomllib
from pathlib import Path
from typing import Any

from trainer_native import config


class StudyError(ValueError):
    """A study that cannot be run; the message is one line for the user: where, what, what is legal."""


def names(kind: str = "studies") -> list[str]:
    """The names that `load` takes (or those of "spaces"): your own in the working directory, and those that ship."""
    return sorted({path.stem for place in (Path(kind), folder(kind)) for path in place.glob("*.toml")})


@functools.cache
def folder(kind: str) -> Path:
    """Where "studies", "spaces", "reports" that ship are: inside the package, or beside it in a source tree."""
    package = Path(__file__).resolve().parent
    return next((p for p in (package / kind, package.parent / kind) if p.is_dir()), package / kind)


def find(kind: str, name: str | Path, where: str = "", beside: Path | None = None) -> Path:
    """The file of a study or a space: a path to a .toml file, else a name. `beside`: the file that names it."""
    prefix = f"{where}: " if where else ""
    text = os.fspath(name)
    is_path = isinstance(name, Path) or text.endswith(".toml") or "/" in text or os.sep in text
    if is_path:
        path = Path(os.path.expanduser(text))  # unlike Path.expanduser, never raises
        places = [path, beside.parent / path] if beside else [path]
    else:
        places = [place / f"{text}.toml" for place in (Path(kind), folder(kind))]
    try:
        for path in places:
            if path.exists():
                return path.absolute()
    except OSError as error:
        raise StudyError(f"{prefix}{text}: cannot be read: {error.strerror}") from None
    if is_path:
        raise StudyError(f"{prefix}{text}: no such file")
    known = names(kind)
    noun = {"studies": "study", "spaces": "space"}[kind]
    legal = f"{listing(known)}, or the path of a .toml file"
    raise StudyError(f"{prefix}{text!r} is not a {noun}.{config.closest(text, known)} Legal are {legal}")


def listing(names: list[str], most: int = 8) -> str:
    """Names for an error message, the first few of many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def shown(path: Path) -> str:
    """`path` as an error shows it: short where it is below the working directory, or one that ships."""
    for place in (Path.cwd(), folder("studies").parent):
        if path.is_relative_to(place):
            return path.relative_to(place).as_posix()
    return str(path)


def read(path: Path) -> tuple[dict[str, Any], str]:
    """What a TOML file holds, and the comment it begins with."""
    where = shown(path)
    if not path.is_file():
        raise StudyError(f"{where}: not a file; legal is a TOML file")
    try:
        text = path.read_bytes().decode("utf-8-sig")
        content = tomllib.loads(text)
    except OSError as error:
        raise StudyError(f"{where}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise StudyError(f"{where}: not UTF-8, at byte {error.start}; legal is a TOML file in UTF-8") from None
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, and numbers or nesting beyond Python's limits
        raise StudyError(f"{where}: not TOML: {one_line(error)}") from None
    comment = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("#").strip())
    return content, " ".join(part for part in comment if part)


def one_line(error: Exception) -> str:
    """The message of an error, on one line."""
    return " ".join(str(error).split())
