"""How fast the native trainer is: each case in processes of its own, beside its bound, and against another build."""

from __future__ import annotations

import itertools
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep import formats, machine, terminal

#: Environment -> widths and epochs that are timed where nothing else is asked; OTHERS for those not named here.
DEFAULTS = {"breakout": ((8, 16, 32, 64, 128), (2,)), "cartpole": ((8, 32, 64), (1, 4))}
OTHERS = ((8, 32, 128), (2,))

#: Env steps of an iteration, whatever the horizon; gradient steps per epoch.
ROLLOUT, MINIBATCHES = 8192, 4

#: A change for the better is nowhere slower than this.
WORST_RATIO = 0.97

#: The share of the bound that a timing is planned for, and the iterations it has at least.
PLANNED_SHARE, LEAST_ITERATIONS = 0.45, 12


class BenchError(ValueError):
    """What cannot be timed, in one line."""


@dataclass(frozen=True)
class Side:
    """One of the two of a comparison: a build, or this build with other params."""

    name: str
    build: str | None = None  # a folder that holds trainer_native; None: the one that is installed here
    params: dict[str, Any] = field(default_factory=dict)


def cases(envs: Sequence[str], hidden: Sequence[int], layers: Sequence[int], cells: Sequence[str],
          epochs: Sequence[int], horizons: Sequence[int], params: dict[str, Any]) -> list[dict]:
    """Every combination, as params; empty `envs`, `hidden` and `epochs` mean those of DEFAULTS. N · T is the same for
    every horizon. `params` are taken in every case. Raises ConfigError, HeaderError."""
    import trainer_native
    from trainer_native import config

    found = []
    for horizon in horizons:
        config.HYPERPARAMETERS["horizon"].check(horizon)
    for env in envs or DEFAULTS:
        widths, passes = DEFAULTS.get(env, OTHERS)
        for width, count, layer, cell, horizon in itertools.product(hidden or widths, epochs or passes, layers, cells,
                                                                    horizons):
            copies = max(4, ROLLOUT // horizon // 4 * 4)
            case = {"hidden": width, "layers": layer, "cell": cell, "epochs": count, "envs": copies, "horizon": horizon,
                    "minibatches": MINIBATCHES, **params}
            trainer_native.network_size(env, case)
            found.append({"env": env, "params": case})
    return found


def against(value: str) -> Side:
    """What `--against` names: the folder of another build, or params of this one as KEY=VALUE,KEY=VALUE."""
    folder = Path(value)
    if not folder.exists() and "=" in value:
        return Side(value, params=dict(param(word) for word in value.split(",")))
    package = folder / "trainer_native"
    if not (package / "__init__.py").is_file() or not list(package.glob("_core*")):
        raise BenchError(f"--against {value}: no built trainer is there (trainer_native/_core*.so); legal is a folder made "
                         "by `pip install --no-deps --target FOLDER CHECKOUT`, a checkout with the module in it, or "
                         "KEY=VALUE for this build with other params")
    return Side(value, build=str(folder.resolve()))


def param(word: str) -> tuple[str, Any]:
    """KEY=VALUE, the value as TOML would have it, or a word. Raises BenchError."""
    key, equals, text = word.partition("=")
    if not (equals and key.strip() and text.strip()):
        raise BenchError(f"{word!r} is not KEY=VALUE, like minibatches=8")
    text = text.strip()
    known: dict[str, Any] = {"true": True, "false": False}
    for kind in (int, float):
        try:
            return key.strip(), known.get(text, kind(text))
        except ValueError:
            continue
    return key.strip(), known.get(text, text)


def trainer(todo: list[dict], repeats: int = 3, seconds: float = 0.5, other: Side | None = None,
            progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Times every case `repeats` times for about `seconds` CPU seconds, and `other` in turn with it: what
    `sweep bench trainer --json` prints. Raises BenchError, ConfigError, HeaderError."""
    sides = [Side("this build")] + ([other] if other else [])
    planned = [_plan(case, seconds) for case in _named(todo)]
    timings: list[list[list[dict]]] = [[[] for _ in sides] for _ in todo]
    for repeat in range(repeats):  # the cases in turn, so that a slow minute does not fall on one of them
        for at, case in enumerate(planned):
            progress(f"{case['case']}, {at + 1} of {len(todo)}, repeat {repeat + 1} of {repeats}")
            for i in range(len(sides)) if repeat % 2 == 0 else reversed(range(len(sides))):
                timings[at][i].append(_time(case, sides[i]))
    measured = [_measured(case, *of) for case, of in zip(planned, timings, strict=True)]
    first = timings[0][0][0]
    return {
        "machine": machine.facts(), "isa": first["isa"], "compiler": first["compiler"],
        "peak_gflops": statistics.median(c["peak_gflops"] for c in measured), "repeats": repeats,
        "cases": measured, **({"against": _verdict(other, measured, timings)} if other else {}),
    }


def _plan(case: dict, seconds: float) -> dict:
    """The case with its FLOP count and with the env steps that take about `seconds`: whole iterations."""
    from trainer_native import config, environments, limits

    environment = environments.find(case["env"])
    full = config.complete(case["params"], environment.params)
    flop, per_iteration = limits.flop_per_env_step(environment, full), full["envs"] * full["horizon"]
    found = limits.measure(environment, full)
    planned = PLANNED_SHARE * seconds / _bound_seconds(flop, found) / per_iteration
    return {**case, "flop": flop, "per_iteration": per_iteration,
            "env_steps": max(LEAST_ITERATIONS, round(planned)) * per_iteration}


def _bound_seconds(flop: float, limits: dict) -> float:
    """The least time of an env step: its products at the peak, and the environment."""
    return flop / limits["peak_flops"] + limits["environment_seconds"]


def _time(case: dict, side: Side) -> dict:
    """What bench_case.py says of one case, in a process of its own."""
    asked = {"build": side.build, "env": case["env"], "params": {**case["params"], **side.params}, "seed": 1,
             "env_steps": case["env_steps"], "per_iteration": case["per_iteration"], "limits": side.build is None}
    script = Path(__file__).with_name("bench_case.py")
    paths = [str(Path(p).absolute()) for p in sys.path if p]
    done = subprocess.run([sys.executable, "-P", str(script), json.dumps(asked)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        raise BenchError(f"{case['case']}, {side.name}: {why}")
    found = json.loads(done.stdout)
    if "error" in found:
        raise BenchError(f"{case['case']}, {side.name}: {found['error']}")
    return found


def _named(todo: list[dict]) -> list[dict]:
    """The cases, each with a `case` that tells it from the others: environment, width, × epochs, and what else varies."""
    marks = {"cell": "{}", "layers": "L{}", "horizon": "T{}"}
    varied = [key for key in marks if len({c["params"][key] for c in todo}) > 1]
    return [{**c, "case": " ".join([c["env"], str(c["params"]["hidden"]), f"×{c['params']['epochs']}",
                                    *(marks[key].format(c["params"][key]) for key in varied)])} for c in todo]


def _measured(case: dict, mine: list[dict], others: list[dict] | None = None) -> dict[str, Any]:
    """A case as it is printed: medians over the repeats, beside the bound."""
    p, flop = case["params"], case["flop"]
    peak = statistics.median(t["peak_flops"] for t in mine)
    bound = 1.0 / statistics.median(_bound_seconds(flop, t) for t in mine)
    found = _medians(mine)
    speed = found["env_steps_per_cpu_second"]
    return {
        "case": case["case"], "env": case["env"], **{key: p[key] for key in ("hidden", "layers", "cell", "epochs", "horizon", "envs")},
        "env_steps_per_cpu_second": speed, "share_of_peak": speed * flop / peak, "bound": bound,
        "share_of_bound": speed / bound, "flop_per_env_step": flop, "peak_gflops": peak / 1e9,
        "environment_ns": 1e9 * statistics.median(t["environment_seconds"] for t in mine),
        **found, "env_steps": case["env_steps"], "params": p,
        **({"against": _compared(mine, others)} if others else {}),
    }


def _medians(timings: list[dict]) -> dict[str, Any]:
    """Medians of one side's timings; `split`: the phases' shares of the CPU time, in sum 1. `start_ms` is wall time,
    which load lengthens, and so the least."""

    def of(value: Callable[[dict], float | None]) -> float | None:
        values = [v for v in map(value, timings) if v is not None]
        return statistics.median(values) if values else None

    split = {phase: statistics.median(t["phases"][phase] / sum(t["phases"].values()) for t in timings)
             for phase in timings[0]["phases"]}
    total = sum(split.values())
    return {
        "env_steps_per_cpu_second": of(lambda t: t["env_steps"] / t["cpu_seconds"]),
        "split": {phase: share / total for phase, share in split.items()},
        "ns_per_env_step": {key: None if (value := of(lambda t, key=key: t[key])) is None else 1e9 * value
                            for key in ("iteration_0", "iterations_1_6", "rest")},
        "rss_bytes": of(lambda t: t["rss_bytes"]), "rss_growth_bytes": of(lambda t: t["rss_growth_bytes"]),
        "start_ms": 1e3 * min(t["start_seconds"] for t in timings),
        "start_cpu_ms": of(lambda t: 1e3 * t["start_cpu_seconds"]), "weights": timings[0]["weights"],
        "repeats": [t["env_steps"] / t["cpu_seconds"] for t in timings],
    }


def _compared(mine: list[dict], others: list[dict]) -> dict[str, Any]:
    """The other side of a case, and how many times as fast this one is: the median of pairs."""
    return {**_medians(others), "ratio": statistics.median(_ratios(mine, others)),
            "same_weights": {t["weights"] for t in mine} == {t["weights"] for t in others},
            "same_environment": mine[0]["environment_hash"] == others[0]["environment_hash"]}


def _ratios(mine: list[dict], others: list[dict]) -> list[float]:
    """Of the timings that stood side by side."""
    return [b["cpu_seconds"] / b["env_steps"] / (a["cpu_seconds"] / a["env_steps"])
            for a, b in zip(mine, others, strict=True)]


def _verdict(other: Side, measured: list[dict], timings: list[list[list[dict]]]) -> dict[str, Any]:
    """Whether this build improves on the other: the same weights where both say that they mean the same, a better
    geometric mean, and no case below WORST_RATIO."""
    ratios = [case["against"]["ratio"] for case in measured]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    rounds = [math.exp(statistics.fmean(map(math.log, of))) for of in zip(*(_ratios(*both) for both in timings), strict=True)]
    semantics = timings[0][0][0]["semantics"], timings[0][1][0]["semantics"]
    changed = [case["case"] for case in measured if not case["against"]["same_weights"]]
    worst = min(measured, key=lambda case: case["against"]["ratio"])
    must = other.build is not None and semantics[0] == semantics[1]
    against = []
    if must and changed:
        against.append(f"the weights differ in {len(changed)} of {len(measured)} cases, first in {changed[0]}")
    if not mean > 1:
        against.append(f"the geometric mean is {mean:.3f}")
    if min(ratios) < WORST_RATIO:
        against.append(f"{worst['case']} is at {min(ratios):.3f}")
    return {"name": other.name, "build": other.build, "params": other.params, "semantics": semantics[1],
            "same_semantics": semantics[0] == semantics[1], "same_weights": not changed, "geometric_mean": mean,
            "geometric_mean_of_repeats": [min(rounds), max(rounds)], "worst_ratio": min(ratios),
            "worst_case": worst["case"], "improvement": not against, "why_not": against}


# -- in words -------------------------------------------------------------------------------------------

#: Column of the split -> its phases.
_COLUMNS = {"env": ("environment",), "forw": ("forward",), "samp": ("sampling",), "adv": ("advantages",), "loss": ("loss",),
            "back": ("backward",), "optim": ("optimizer",), "copy": ("copying",), "rest": ("evaluation", "rest")}


def text(found: dict[str, Any]) -> str:
    """The cases beside their bounds, what their time goes into and, where there was one, the comparison."""
    measured = found["cases"]
    alike = {key: measured[0][key] for key in ("layers", "cell", "horizon") if len({c[key] for c in measured}) == 1}
    what = {"layers": "{} layers", "cell": "cell {}", "horizon": "horizon {}"}
    about = [f"{found['machine']['cpu']}, {found['isa']}, one core, peak {found['peak_gflops']:.0f} GFLOP/s, "
             + f"medians of {found['repeats']}",
             "case: environment, width, × epochs" + "".join(
                 f", {what[key].format(value)}" for key, value in alike.items()).replace(" 1 layers", " 1 layer")]
    speeds = [[c["case"], formats.short(c["env_steps_per_cpu_second"]), formats.short(c["bound"]),
               formats.percent(c["share_of_bound"]), formats.percent(c["share_of_peak"]),
               f"{c['rss_bytes'] / 1e6:.0f} MB", f"{c['start_ms']:.1f} ms"] for c in measured]
    blocks = ["\n".join(about), terminal.table(
        ["case", "env steps/CPU s", "bound", "of bound", "of peak", "memory", "start"], speeds)]
    if all("rest" in c["split"] for c in measured):
        blocks.append(terminal.table(["CPU time, %", *_COLUMNS], [
            [c["case"], *(f"{100 * sum(c['split'].get(phase, 0.0) for phase in of):.0f}" for of in _COLUMNS.values())]
            for c in measured]))
    if "against" in found:
        blocks.append(_comparison(found["against"], measured))
    return "\n\n".join(blocks)


def _comparison(verdict: dict, measured: list[dict]) -> str:
    rows = [[c["case"], formats.short(c["env_steps_per_cpu_second"]), formats.short(c["against"]["env_steps_per_cpu_second"]),
             f"{c['against']['ratio']:.3f}", "same" if c["against"]["same_weights"] else "differ"]
            for c in measured]
    low, high = verdict["geometric_mean_of_repeats"]
    lines = [f"against {verdict['name']}: ratio above 1 is faster than it",
             terminal.table(["case", "env steps/CPU s", "against", "ratio", "weights"], rows),
             f"geometric mean {verdict['geometric_mean']:.3f} ({low:.3f} to {high:.3f} by repeat), "
             + f"worst {verdict['worst_ratio']:.3f}: {verdict['worst_case']}"]
    if verdict["build"] and not verdict["same_semantics"]:
        lines.append("the two builds differ in their semantics, so their weights need not be the same")
    why = "" if verdict["improvement"] else ": " + "; ".join(verdict["why_not"])
    return "\n".join([*lines, ("an improvement" if verdict["improvement"] else "not an improvement") + why])
