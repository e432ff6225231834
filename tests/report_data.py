"""Made-up studies in the shape that `results.collect` gives, for tests of figures and pages."""

from __future__ import annotations

import numpy as np

from sweep import intervals, statistics

DIMENSIONS = {
    "hidden": [8, 16, 32, 64], "layers": 1, "envs": {"pow2": [32, 512]}, "horizon": {"pow2": [16, 128]},
    "learning_rate": {"log": [1e-3, 1e-1]}, "gamma": {"near_one": [0.9, 0.999]}, "gae_lambda": {"uniform": [0.5, 1.0]},
    "entropy_coefficient": {"log": [1e-4, 1e-1]}, "epochs": [1, 2, 3, 4], "optimizer": ["muon", "adam"], "frameskip": {"int": [2, 8]},
}


def run(number: int, seed: int, scale: float, rate: float, rng, cap: float = 60.0, points: int = 64, goal: float = 800.0) -> dict:
    """A run's row with its learning curve; `rate` is the chance that it solves at all."""
    time = scale * float(np.exp(0.35 * rng.standard_normal()))
    solved = rng.random() < rate and time < cap
    end = time if solved else cap
    status = "solved" if solved else "diverged" if rng.random() < 0.1 else "censored"
    steps = end * 480_000
    grid = np.linspace(0.02, 1, points)
    top = goal if solved else goal * rng.uniform(0.1, 0.9)
    returns = top / (1 + np.exp(-9 * (grid - 0.62))) * (1 + 0.02 * rng.standard_normal(points))
    return {
        "id": number, "seed": seed, "status": status, "reason": "criterion confirmed" if solved else "cap",
        "seconds": end, "cpu_seconds": end * 0.99, "setup_seconds": 0.01, "env_steps": int(steps), "iterations": int(steps / 8192),
        "rollout_seconds": end * 0.4, "update_seconds": end * 0.5, "evaluation_seconds": end * 0.05, "evaluations": 1,
        "trigger_seconds": end * 0.95 if solved else None, "trigger_env_steps": None, "cap_seconds": cap, "audit": False,
        "mean_return": 820.0 if solved else float(returns[-1]), "best_return": float(returns.max()), "worker": "0",
        "curve": np.column_stack([grid * end * 0.99, grid * end, grid * steps, returns]),
    }


def summarise(runs: list[dict], measured: bool = False) -> dict:
    """The SUMMARY of some runs."""
    times, solved = statistics.outcomes((r["status"], r["seconds"], r["reason"]) for r in runs)
    median, low, high = intervals.median(times, solved)
    ert_low, ert_high = intervals.restart_ert(times, solved, draws=100)
    k = int(sum(solved))
    share_low, share_high = statistics.clopper_pearson(k, len(runs))
    return {
        "runs": len(runs), "solved": k, "solved_low": share_low, "solved_high": share_high,
        "seconds": {"median": median, "low": low, "high": high, "restart_ert": statistics.restart_ert(times, solved),
                    "restart_ert_low": ert_low, "restart_ert_high": ert_high,
                    "olympic": statistics.olympic_mean([t for t, s in zip(times, solved, strict=True) if s])},
        "env_steps": {"median": float(np.median([r["env_steps"] for r in runs]))},
        "steps_per_second": 480_000.0, "steps_per_second_all_cores": 450_000.0 if measured else None,
        "false_solves": 0.031 if measured else None,
    }


def study(trials: int = 60, finalists: int = 5, seed: int = 0, name: str = "breakout", rate: float = 0.8, curves: bool = True) -> dict:
    """A whole study; `rate` 0: nothing ever solves. `curves`: of the search's runs too."""
    rng = np.random.default_rng(seed)
    made, search, elapsed, run_id = [], [], 0.0, 0
    for number in range(trials):
        hidden = int(rng.choice([8, 16, 32, 64]))
        parameters = 119 * hidden + 3 * hidden * hidden + 4 * hidden
        params = {
            "hidden": hidden, "layers": 1, "envs": int(2 ** rng.integers(5, 10)), "horizon": int(2 ** rng.integers(4, 8)),
            "learning_rate": float(10 ** rng.uniform(-3, -1)), "gamma": 1 - float(10 ** rng.uniform(-3, -1)),
            "gae_lambda": float(rng.uniform(0.5, 1)), "entropy_coefficient": float(10 ** rng.uniform(-4, -1)),
            "epochs": int(rng.integers(1, 5)), "optimizer": str(rng.choice(["muon", "adam"])), "frameskip": int(rng.integers(2, 9)),
        }
        scale = 9 * float(np.exp(abs(rng.standard_normal()) * 0.9)) * {8: 1.6, 16: 1.0, 32: 0.75, 64: 0.9}[hidden]
        good = rate * float(rng.random() ** 0.3)
        runs = []
        for s in range(int(rng.choice([1, 1, 1, 2, 4, 8]))):
            run_id += 1
            runs.append(run(run_id, s, scale, good, rng, cap=45.0, points=64 if curves else 2))
            elapsed += runs[-1]["seconds"] / 2
        claim = summarise(runs) if len(runs) > 1 else _single(runs)
        made.append({"id": number + 1, "number": number, "params": params, "parameters": parameters, "state": "ended", "value": None,
                     "origin": "tpe" if number else "default", "runs": runs, "verification": [], "search": claim, "verified": None,
                     "is_verified": False, "_scale": scale, "_rate": good})
        ert = claim["seconds"]["restart_ert"]
        if np.isfinite(ert) and (not search or ert < search[-1]["best_restart_ert"]):
            search.append({"elapsed_seconds": elapsed, "best_restart_ert": ert, "trial": number})
    able = sorted((t for t in made if np.isfinite(t["search"]["seconds"]["restart_ert"])),
                  key=lambda t: t["search"]["seconds"]["restart_ert"] * (1 + t["parameters"] / 8000))
    for place, trial in enumerate(able[:finalists]):
        for s in range(32 if place < 2 else 16):
            run_id += 1
            scale = trial["_scale"] * 1.15
            trial["verification"].append(run(run_id, 1000 + s, scale, max(trial["_rate"], 0.95 if place != 2 else 0.5), rng))
        trial["verified"] = summarise(trial["verification"], measured=True)
        trial["is_verified"] = statistics.is_verified(trial["verified"]["solved"], trial["verified"]["runs"])
    for trial in made:
        del trial["_scale"], trial["_rate"]
    verified = [t for t in made if t["is_verified"]]
    placed = verified or [t for t in able if t["search"]["runs"] >= 4]
    front = [placed[i]["number"] for i in statistics.front([(t["parameters"], _ert(t)) for t in placed])]
    statuses = [r["status"] for t in made for r in t["runs"] + t["verification"]]
    spent = sum(r["seconds"] for t in made for r in t["runs"])
    return {
        "study": {"id": 1, "name": name, "env": "breakout", "hash": "3f" * 32, "created": "2026-03-04T05:06:07+00:00", "sampler": "tpe",
                  "question": "How fast, and how small, can a network be that plays Breakout to the end?",
                  "budget": {"study_seconds": 900.0, "verify_seconds": 600.0, "run_seconds": 60.0, "seeds": 8, "max_env_steps": None},
                  "definition": {"env": "breakout", "solve": {"mean_return": 800.0, "episodes": 100, "policy": "sampled"},
                                 "dimensions": DIMENSIONS, "trainer": "native", "semantics": 1}},
        "machines": [{"id": 1, "started": "2026-03-04T05:06:07+00:00", "ended": "2026-03-04T05:31:20+00:00", "workers": 2,
                      "command": f"sweep run {name} --budget 15m --verify 10m",
                      "machine": {"cpu": "AMD EPYC 7763 64-Core Processor", "cores": 2, "memory_bytes": 24 * 2**30, "system": "Linux 6.1"},
                      "build": {"isa": "x86-64-v3", "fma": True, "semantics": 1, "compiler": "GNU 12.2.0"},
                      "totals": {"worker_seconds": spent * 1.06, "training_seconds": spent, "sampler_cpu_seconds": spent * 0.02,
                                 "platform_cpu_seconds": spent * 0.005}}],
        "trials": made, "front": front, "search": search,
        "recommended": statistics.recommended([(t["number"], t["parameters"], _ert(t)) for t in verified]),
        "counts": {"trials": len(made), "runs": {s: statuses.count(s) for s in ("solved", "censored", "diverged", "crashed")},
                   "training_seconds": spent, "platform_seconds": spent * 0.005},
    }


def _ert(trial: dict) -> float:
    return (trial["verified"] or trial["search"])["seconds"]["restart_ert"]


def _single(runs: list[dict]) -> dict:
    """The SUMMARY of one run, written down: computing thousands of bootstraps would take longer than the test."""
    solved = runs[0]["status"] == "solved"
    time = runs[0]["seconds"] if solved else None
    return {
        "runs": 1, "solved": int(solved), "solved_low": 0.025 if solved else 0.0, "solved_high": 1.0 if solved else 0.975,
        "seconds": {"median": time, "low": None, "high": None, "restart_ert": time or float("inf"), "restart_ert_low": time,
                    "restart_ert_high": float("inf"), "olympic": None},
        "env_steps": {"median": runs[0]["env_steps"] if solved else None}, "steps_per_second": 480_000.0,
        "steps_per_second_all_cores": None, "false_solves": None,
    }


def spoil(value, bad, rng):
    """`value` with `bad` in the place of one in three of its numbers."""
    if isinstance(value, dict):
        return {k: v if k in ("number", "id") else spoil(v, bad, rng) for k, v in value.items()}
    if isinstance(value, list):
        return [spoil(v, bad, rng) for v in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.33:
        return bad
    return value
