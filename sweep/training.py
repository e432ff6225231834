"""One training run in the foreground: watched, cancelled by Ctrl-C, its weights written with its config."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import trainer_native
from sweep import export, formats, library, study, tomlfiles
from sweep.interrupts import Interrupts
from trainer_native import config, environments

#: Training is given up when it lasts this many times its limit, plus these seconds, of wall time.
HANGS_AFTER, HANGS_SECONDS = 3.0, 30.0
#: What the file of a study may have at its top, and that of an exported trial may not.
STUDY_ALONE = {"space", "sampler", "budget", "start"}


def load(source: str, trial: int | None, database: str) -> export.Exported:
    """What to train: an exported file, or a trial of a study in the database (by default the recommended one, else trial 0)."""
    is_study = Path(source).is_file() and not STUDY_ALONE.isdisjoint(tomlfiles.read(Path(source))[0])
    if not is_study and (Path(source).is_file() or source.endswith(".toml")):
        if trial is not None:
            raise export.ExportError(f"--trial picks a trial of a study, and {source} is a file that holds one already")
        return export.read(source)
    from sweep import results, store

    name = Path(source).stem if is_study else source
    starts = trial is None and (is_study or source in study.names())  # it has a file: where it starts is known without a run
    if starts and not Path(database).exists():
        return first(source, "it has not been run yet")
    opened = store.Store(database, create=False, readonly=True)
    if starts and name not in {row["name"] for row in opened.studies()}:
        return first(source, "it has not been run yet")
    data = results.collect(opened, name)
    if starts and data["recommended"] is None:
        return first(source, "no trial of it is verified yet")
    found = export.find(data, trial)
    definition = data["study"]["definition"]
    environment = environments.find(data["study"]["env"])
    return export.Exported(data["study"]["env"], config.complete(found["params"], environment.params),
                           trainer_native.Solve(**definition["solve"]), export.published(data, found))


def first(source: str, why: str) -> export.Exported:
    """Trial 0 of a study, by its file alone; says so."""
    question = study.load(source)
    print(f"{question.name}: trial 0, the start of the search ({why})", file=sys.stderr)
    return export.Exported(question.env, config.complete(question.trial0(), question.environment), question.solve, {})


def train(exported: export.Exported, seed: int, max_seconds: float, out: Path, force: bool = False) -> dict[str, Any]:
    """Train until the solve or `max_seconds` CPU seconds; how it ended, with `curve` [n, 4] and `weights`, a path.

    Ctrl-C ends the run as a cap would, and what was learnt is written all the same.
    """
    export.refuse_existing(out, force)
    environment = environments.find(exported.env)
    library.say_whose(exported.env)
    if exported.published.get("environment_hash") not in (None, environment.source_hash):
        print(f"{exported.env}: {environment.source} has changed since this was measured", file=sys.stderr)
    print(f"{exported.env}, seed {seed}, at most {formats.duration(max_seconds)}", file=sys.stderr)
    control = np.array([max_seconds, 0.0])
    ended: dict[str, Any] = {}
    over = threading.Event()

    def work() -> None:
        try:
            ended["run"] = trainer_native.train(environment, exported.params, seed, exported.solve, max_seconds,
                                                control=control)
        except BaseException as error:  # noqa: BLE001 - it is raised in the main thread
            ended["error"] = error
        finally:
            over.set()

    _watch(threading.Thread(target=work, name="training", daemon=True), over, control, max_seconds)
    if "error" in ended:
        raise ended["error"]
    run = ended["run"]
    result = {key: getattr(run, key) for key in (
        "status", "reason", "seed", "parameters", "seconds", "cpu_seconds", "setup_seconds", "env_steps", "iterations",
        "mean_return", "mean_metric")}
    result |= {"env": exported.env, "solved_on": "mean return" if exported.solve.metric is None else "mean metric",
               "env_steps_per_second": run.env_steps / run.seconds if run.seconds else None,
               "published": exported.published, "curve": run.curve, "weights": None}
    if run.weights and not all(np.isfinite(values).all() for values in run.weights.values()):
        result["unwritten"] = "no weights are written: they are not finite"
    elif run.weights:
        about = {"env": exported.env, "environment_hash": environment.source_hash, "params": exported.params,
                 "solve": {k: v for k, v in dataclasses.asdict(exported.solve).items() if v is not None}, "seed": seed, "status": run.status,
                 "env_steps": run.env_steps, "mean_return": run.mean_return, "mean_metric": run.mean_metric,
                 "semantics": config.SEMANTICS, "build": trainer_native.build_info()["isa"]}
        result["weights"] = str(export.write_weights(out, run.weights, about, force))
    return result


def _watch(thread: threading.Thread, over: threading.Event, control: np.ndarray, max_seconds: float) -> None:
    """Run the thread until it says that it is over, with the time on a terminal; Ctrl-C asks it to stop.

    `Thread.is_alive` would not do: an interrupted join leaves it wrong in Python 3.11.
    """
    shown = sys.stderr.isatty()
    start = time.monotonic()
    last = start + HANGS_AFTER * max_seconds + HANGS_SECONDS
    with Interrupts() as interrupts:

        def act(count: int) -> None:
            control[1] = 1.0
            if count > 1:
                _abandon("stopped at once; no weights are written", 143 if interrupts.terminated else 130)

        interrupts.act = act
        thread.start()
        while not over.wait(0.2 if shown else 1.0):
            spent = time.monotonic() - start
            if time.monotonic() > last:
                _abandon(f"training does not come to its end: given up after {formats.duration(round(spent))} "
                         f"with a limit of {formats.duration(max_seconds)}", 2)
            if shown and spent > 0.5:
                what = "stopping" if interrupts.count else "training"
                print(f"\r\x1b[K{what}, {formats.duration(round(spent))} of at most {formats.duration(max_seconds)}",
                      end="", file=sys.stderr, flush=True)
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _abandon(why: str, status: int) -> None:
    """End this process with one line, whatever its threads do."""
    os.write(2, f"sweep: {why}\n".encode())
    os._exit(status)


def summary(result: dict[str, Any]) -> str:
    """The end of a run in a few lines, beside what was published of its trial."""
    speed = formats.short(result["env_steps_per_second"])
    lines = [f"{result['status']} ({result['reason']}) after {formats.seconds(result['seconds'])} and "
             + f"{formats.short(result['env_steps'])} env steps, {speed} a second"]
    known = result["published"]
    if known.get("median_seconds"):
        span = f" ({formats.number(known['median_low'])} to {formats.number(known['median_high'])})" if (
            "median_low" in known and "median_high" in known) else ""
        lines.append(f"published: median {formats.seconds(known['median_seconds'])}{span}, {known['solved']} of "
                     f"{known['runs']} seeds, on {known.get('machine', 'an unknown machine')}")
    if result["weights"]:
        lines.append(f"weights    {result['weights']}")
    elif result.get("unwritten"):
        lines.append(result["unwritten"])
    return "\n".join(lines)
