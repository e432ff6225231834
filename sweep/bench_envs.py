"""How fast environments are with random actions, beside their references where those are installed."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sweep import formats, machine, terminal
from sweep.bench import BenchError

COPIES = (1, 64, 1024)

#: Environment -> reference (the name of its package) -> what it calls the same game, or the nearest it has.
REFERENCES: dict[str, dict[str, str]] = {
    "acrobot": {"gymnasium": "Acrobot-v1", "gymnax": "Acrobot-v1"},
    "asterix": {"minatar": "asterix", "gymnax": "Asterix-MinAtar"},
    "bernoulli_bandit": {"gymnax": "BernoulliBandit-misc"},
    "breakout": {"pufferlib": "breakout"},
    "breakout_minatar": {"minatar": "breakout", "gymnax": "Breakout-MinAtar"},
    "cartpole": {"gymnasium": "CartPole-v1", "gymnax": "CartPole-v1"},
    "deep_sea": {"gymnax": "DeepSea-bsuite"},
    "freeway": {"pufferlib": "freeway"},
    "freeway_minatar": {"minatar": "freeway", "gymnax": "Freeway-MinAtar"},
    "g2048": {"pufferlib": "g2048"},
    "memory_chain": {"gymnax": "MemoryChain-bsuite"},
    "mountain_car": {"gymnasium": "MountainCar-v0", "gymnax": "MountainCar-v0"},
    "mountain_car_continuous": {"gymnasium": "MountainCarContinuous-v0", "gymnax": "MountainCarContinuous-v0"},
    "pendulum": {"gymnasium": "Pendulum-v1", "gymnax": "Pendulum-v1"},
    "pong": {"pufferlib": "pong"},
    "seaquest": {"minatar": "seaquest"},
    "simple_bandit": {"gymnax": "SimpleBandit-bsuite"},
    "space_invaders": {"minatar": "space_invaders", "gymnax": "SpaceInvaders-MinAtar"},
    "squared": {"pufferlib": "squared"},
}

#: A reference with many copies that takes longer than this, compilation included, is left out.
LIMIT_SECONDS = 300.0


def measure(names: Sequence[str], seconds: float = 0.3, repeats: int = 5, python: str | None = None,
            progress: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """Env steps per CPU second of these environments (all that ship, where none is named), each case in a process of its own on
    one core: what `sweep bench envs --json` prints. `python`: the one that has the references. Raises BenchError, HeaderError."""
    from trainer_native import environments, trainer

    found = [environments.find(name) for name in names or environments.names()]  # compiled here, not on the clock
    core, absent, measured = machine.cores()[-1], set(), []
    for env in found:
        players = {"sweep": env.name if env.name in environments.names() else str(env.source), **REFERENCES.get(env.name, {})}
        rows = []
        for who, name in players.items():
            if who in absent:
                continue
            cases = []
            for copies in COPIES:
                progress(f"{env.name}: {who}, {copies}")
                case = {"who": who, "name": name, "copies": copies, "seconds": seconds, "repeats": repeats, "core": core}
                cases.append(_time(case, sys.executable if who == "sweep" else python or sys.executable))
                if "missing" in cases[-1]:
                    absent.add(who)
                    break
            if who not in absent:
                rows.append(_row(env.name, who, name, cases))
        measured.append({"env": env.name, "observation_size": env.observation_size, "players": rows, "ratio": _ratios(rows)})
    return {"machine": machine.facts(), "isa": trainer.isa(), "seconds": seconds, "repeats": repeats, "copies": list(COPIES),
            "missing": sorted(absent), "environments": measured}


def _time(case: dict, python: str) -> dict:
    """What bench_envs_case.py says of one case, in a process of its own."""
    script = Path(__file__).with_name("bench_envs_case.py")
    ours = [str(Path(p).absolute()) for p in sys.path if p] if python == sys.executable else []
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    env = {**os.environ, **threads, **({"PYTHONPATH": os.pathsep.join(ours)} if ours else {})}
    try:
        done = subprocess.run([python, "-P", str(script), json.dumps(case)], capture_output=True, text=True, env=env, check=False,
                              timeout=LIMIT_SECONDS + 2 * case["repeats"] * case["seconds"])  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"not done within {LIMIT_SECONDS:.0f} s"}
    except OSError as error:
        raise BenchError(f"--python {python}: {error.strerror}; legal is the path of a Python") from None
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        why = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        return {"error": why}


def _row(env: str, who: str, name: str, cases: list[dict]) -> dict[str, Any]:
    """One player of an environment: medians by number of copies, None where it did not run. Raises BenchError for ours."""
    errors = [case["error"] for case in cases if "error" in case]
    if who == "sweep" and errors:
        raise BenchError(f"{env}: {errors[0]}")
    repeats = [case.get("env_steps_per_cpu_second") for case in cases]
    return {"who": who, "name": name, "version": next((case["version"] for case in cases if "version" in case), None),
            "env_steps_per_cpu_second": [statistics.median(of) if of else None for of in repeats], "repeats": repeats,
            "errors": errors}


def _ratios(rows: list[dict]) -> dict[str, float]:
    """How many times as fast ours is at its best as each reference at its best."""
    best = {row["who"]: max((speed for speed in row["env_steps_per_cpu_second"] if speed), default=None) for row in rows}
    return {who: best["sweep"] / speed for who, speed in best.items() if who != "sweep" and speed}


def text(found: dict[str, Any]) -> str:
    """A row for each environment, and one below it for each of its references."""
    rows = []
    for env in found["environments"]:
        for player in env["players"]:
            ours = player["who"] == "sweep"
            ratio = env["ratio"].get(player["who"])
            rows.append([env["env"] if ours else f"  {player['who']} {player['version'] or ''}".rstrip(),
                         *("-" if speed is None else formats.short(speed) for speed in player["env_steps_per_cpu_second"]),
                         "" if ratio is None else f"{ratio:.3g} ×"])
    about = (f"{found['machine']['cpu']}, {found['isa']}, one core; env steps per CPU second with random actions, by the number of "
             f"copies; medians of {found['repeats']}\nlast column: how many times as fast ours is, each at its best")
    blocks = [about, terminal.table(["", *map(str, found["copies"]), "ours"], rows)]
    failed = [f"{env['env']}: {player['who']}: {error}" for env in found["environments"] for player in env["players"]
              for error in dict.fromkeys(player["errors"])]
    if failed:
        blocks.append("\n".join(failed))
    if found["missing"]:
        blocks.append(f"not installed here: {', '.join(found['missing'])}")
    return "\n\n".join(blocks)
