"""What this machine and this installation are, and whether sweep can work here."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

from sweep import formats, machine

NEEDED = ("click", "cmaes", "jinja2", "numpy", "optuna", "plotly", "safetensors", "sqlite-utils")
OPTIONAL = {"ray": "cluster: runs on other machines", "cupy-cuda13x": "gpu", "torch": 'sampler = "gp"'}


def examine(database: str) -> dict[str, Any]:
    """Facts by heading, and `problems`: what keeps sweep from working, one line each, empty if nothing does."""
    problems: list[str] = []
    return {
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "sweep": _version("solve-sweep"),
        **_build(problems),
        **_machine(),
        "dependencies": {name: _needed(name, problems) for name in NEEDED},
        "optional": {name: _version(name) or f"not installed ({what})" for name, what in OPTIONAL.items()},
        "database": _database(database, problems),
        "cache": _cache(problems),
        "problems": problems,
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _needed(name: str, problems: list[str]) -> str | None:
    found = _version(name)
    if found is None or util.find_spec(name.replace("-", "_")) is None:
        problems.append(f"{name} is missing: install solve-sweep again")
    return found


def _build(problems: list[str]) -> dict[str, Any]:
    try:
        import trainer_native

        info = trainer_native.build_info()
        facts = {"built with": info["compiler"], "instruction sets": ", ".join(info["isas"]), "chosen": info["isa"],
                 "fused multiply-add": "yes" if info["fma"] else "no: other weights than elsewhere for the same seed",
                 "trainer semantics": info["semantics"], "environments": ", ".join(trainer_native.environments.names())}
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        problems.append(f"the native trainer cannot be loaded: {error}")
        facts = {"built with": None}
    try:
        from trainer_native import environments, headers

        facts["compiler of environments"] = " ".join(headers.compiler())
        for name in environments.names():
            try:
                environments.find(name)
            except headers.HeaderError as error:
                problems.append(str(error))
    except Exception as error:  # noqa: BLE001 - as above
        problems.append(f"environments cannot be compiled: {error}")
    return facts


def _machine() -> dict[str, Any]:
    facts = machine.facts()
    pinned = "yes" if hasattr(os, "sched_setaffinity") else "no: this system has none"
    return {"processor": facts["cpu"], "cores": facts["cores"], "pinning": pinned,
            "memory": formats.bytes_(facts["memory_bytes"])}


def _database(path: str, problems: list[str]) -> str:
    where = Path(path).absolute()
    if not where.exists():
        return f"{where} (not there yet)"
    from sweep import store

    try:
        studies = len(store.Store(path, create=False, readonly=True).studies())
    except store.StoreError as error:
        problems.append(str(error))
        return f"{where} (unusable)"
    return f"{where} ({studies} {'study' if studies == 1 else 'studies'})"


def _cache(problems: list[str]) -> str | None:
    try:
        from trainer_native import headers
    except Exception:  # noqa: BLE001 - said already
        return None
    folder = headers.cache().absolute()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    if not os.access(existing, os.W_OK):
        problems.append(f"{folder}: built environments cannot be kept there; make it writable")
    return str(folder)


def text(facts: dict[str, Any]) -> str:
    """The same, one fact on a line, the problems last."""
    lines = []
    for name, value in facts.items():
        if name != "problems":
            parts = value.items() if isinstance(value, dict) else [("", value)]
            for i, (part, fact) in enumerate(parts):
                words = f"{part} {'missing' if fact is None else fact}".strip()
                lines.append(f"{name if i == 0 else '':<26}{words}")
    problems = facts["problems"]
    return "\n".join([*lines, "", *(f"problem: {p}" for p in problems), *([] if problems else ["All is well."])])
