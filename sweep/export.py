"""A trial's params, and a run's weights, in files that `sweep train` and other tools read."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep import study, tomlfiles
from trainer_native import Solve, config, environments

TOP = ("env", "solve", "net", "train", "environment", "published")
PUBLISHED = ("study", "trial", "verified", "runs", "solved", "median_seconds", "restart_ert_seconds", "machine")


class ExportError(ValueError):
    """An exported file that cannot be read or written, in one line."""


@dataclass(frozen=True)
class Exported:
    """What an exported file holds: enough to train the trial again, and what was measured of it."""

    env: str
    params: dict[str, Any]  # flat, all of them
    solve: Solve
    published: dict[str, Any]


def text(data: dict, number: int, folder: Path | None = None) -> str:
    """The TOML of trial `number` of a study (`data` as from `results.collect`), with every hyperparameter written out.

    Defaults are written too, so that the file means the same when a later version has other defaults. An environment that is a
    header's path is written as seen from `folder`, where the file will be; absolute where none is given.
    """
    trial = find(data, number)
    definition = data["study"]["definition"]
    env = data["study"]["env"]
    environment = environments.find(env)
    if env.endswith(".h") and folder is not None:
        env = Path(os.path.relpath(environment.source, folder.resolve())).as_posix()
    full = config.complete(trial["params"], environment.params)
    tables: dict[str, dict] = {"solve": definition["solve"], "environment": {}, "net": {}, "train": {}}
    for name, value in full.items():
        known = config.HYPERPARAMETERS.get(name)
        if value is not None:
            tables[known.table if known else "environment"][name] = value
    tables["published"] = published(data, trial)
    lines = [f"# Trial {number} of the sweep study {data['study']['name']}: {trial['parameters']:,} parameters.",
             "# `sweep train FILE` trains it to the solve; what was measured stands under [published].",
             "", f"env = {_toml(env)}"]
    for table, entries in tables.items():
        if entries:
            lines += ["", f"[{table}]", *(f"{key} = {_toml(value)}" for key, value in entries.items())]
    return "\n".join(lines) + "\n"


def published(data: dict, trial: dict) -> dict[str, Any]:
    """What was measured of a trial and where, flat; keys without a value are left out."""
    summary = trial["verified"] or trial["search"] or {}
    runs = trial["verification"] if trial["verified"] else trial["runs"]
    times = summary.get("seconds") or {}
    machine = (data["machines"][-1:] or [{}])[0]
    about = machine.get("machine") or {}
    values = {
        "study": data["study"]["name"], "study_hash": data["study"]["hash"], "trial": trial["number"],
        "environment_hash": data["study"]["definition"].get("source_hash"),
        "parameters": trial["parameters"], "verified": bool(trial["is_verified"]),
        "runs": summary.get("runs"), "solved": summary.get("solved"),
        "median_seconds": times.get("median"), "median_low": times.get("low"), "median_high": times.get("high"),
        "restart_ert_seconds": times.get("restart_ert"),
        "median_env_steps": (summary.get("env_steps") or {}).get("median"),
        "seeds": sorted({r["seed"] for r in runs}),
        "machine": about.get("cpu"), "cores": about.get("cores"),
        "build": (machine.get("build") or {}).get("isa"), "compiler": (machine.get("build") or {}).get("compiler"),
        "measured": machine.get("started"),
    }
    return {key: float(f"{value:.6g}") if isinstance(value, float) else value
            for key, value in values.items() if value is not None}


def find(data: dict, number: int | None) -> dict:
    """The trial with this number, else the recommended one; ExportError where there is none."""
    name = data["study"]["name"]
    if number is None:
        number = data["recommended"]
        if number is None:
            if not data["front"]:
                raise ExportError(f"no trial of study {name!r} has solved; --trial N takes one that has not")
            front = ", ".join(map(str, data["front"]))
            raise ExportError(f"study {name!r} has no verified trial; --trial takes any, as of its front: {front}")
    for trial in data["trials"]:
        if trial["number"] == number:
            return trial
    raise ExportError(f"study {name!r} has no trial {number}; it has 0 to {len(data['trials']) - 1}")


def read(path: str | Path) -> Exported:
    """An exported file, checked; an error names the file, the table and the key."""
    path = Path(path)
    if not path.exists():
        raise ExportError(f"{path}: no such file; `sweep export` writes one")
    content, _ = tomlfiles.read(path)
    for key in content:
        if key not in TOP:
            hint = " `sweep run` takes a study, and `sweep export` writes what `sweep train` takes." if key in (
                "space", "budget", "sampler") else config.closest(key, TOP)
            raise ExportError(f"{path}: {key!r} is not part of an exported trial.{hint}")
    if not isinstance(content.get("env"), str):
        raise ExportError(f"{path}: 'env' is missing; legal is the name of an environment, as in `sweep envs`")
    for table in TOP[1:]:
        if not isinstance(content.get(table, {}), dict):
            raise ExportError(f"{path}: {table!r} has to be a table, written [{table}]")
    env = content["env"]
    if env.endswith(".h"):  # as seen from the file, which is how it is written
        header = Path(os.path.expanduser(env))
        header = next((place for place in (path.parent / header, header) if place.is_file()), None)
        if header is None:
            raise ExportError(f"{path}: 'env' is {env!r}; no such file")
        env = str(header.resolve())
    environment = environments.find(env)
    params = {}
    for table in ("net", "train", "environment"):
        for key, value in content.get(table, {}).items():
            known = {**config.HYPERPARAMETERS, **environment.params}
            if key in known and known[key].table != table:
                raise ExportError(f"{path} [{table}]: {key!r} belongs in [{known[key].table}]")
            params[key] = value
    try:
        params = config.complete(params, environment.params)
    except config.ConfigError as error:
        raise ExportError(f"{path}: {error}") from None
    if unfit := config.unfit(params, not environment.choices, environment.image):
        raise ExportError(f"{path}: {unfit[1]}")
    return Exported(env, params, study.check_solve(content.get("solve", {}), f"{path} [solve]", environment), content.get("published", {}))


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)  # the shortest text that reads back as the same float
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def refuse_existing(path: str | Path, force: bool) -> None:
    """ExportError where `path` exists (and `force` is not given) or cannot be written: said before anything runs."""
    path = Path(path)
    if not path.name.isprintable():
        raise ExportError(f"{str(path)!r}: the name of a file has a character that cannot be printed; choose another")
    if path.is_dir():
        raise ExportError(f"{path} is a folder; name a file")
    if os.path.lexists(path) and not path.is_file():
        raise ExportError(f"{path} is not a regular file, and is never replaced; name another")
    if path.exists() and not force:
        raise ExportError(f"{path} exists; --force replaces it")
    if not path.parent.is_dir():
        raise ExportError(f"{path}: the folder {path.parent} does not exist")
    if not os.access(path.parent, os.W_OK):
        raise ExportError(f"{path}: the folder {path.parent} cannot be written")


def write(path: str | Path, content: bytes, force: bool = False) -> Path:
    """`content` at `path`, whole or not at all. The path; ExportError where it exists and `force` is not given."""
    path = Path(path)
    refuse_existing(path, force)
    try:
        handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(partial, 0o666 & ~_umask())
            refuse_existing(path, force)
            os.replace(partial, path)
        finally:
            Path(partial).unlink(missing_ok=True)
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror}") from None
    return path


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_weights(path: str | Path, weights: dict, about: dict[str, Any], force: bool = False) -> Path:
    """Weights as safetensors, with `about` as JSON under `config` in the file's metadata.

    One key, since safetensors writes several in any order, and the same run is to give the same file.
    """
    from safetensors.numpy import save

    return write(path, save(weights, metadata={"config": json.dumps(about)}), force)
