"""What a study has found, from the rows of the store: summaries, the front, what is recommended; pure given the store."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import comparison, intervals, machine, statistics

#: Runs and solves from which on a claim of the search stands on the front, where any trial has as many.
SOLID_RUNS, SOLID_SOLVES = 4, 3


def collect(store: Any, study: str | int) -> dict:
    """All that is known of a study (a name: the newest of it; or its id), plain enough for JSON but for infinite times.

    Search summaries are in CPU seconds, verified ones in wall seconds. Runs of another type of machine or another build than the
    newest invocation's that has runs are counted and nothing else: such times do not stand side by side.
    """
    row = store.find(study) if isinstance(study, str) else next(r for r in store.studies() if r["id"] == study)
    invocations, rows = store.invocations(row["id"]), store.runs(row["id"])
    here = {r["invocation_id"] for r in rows}
    newest = max((i["id"] for i in invocations if i["id"] in here), default=None)
    alike = machine.alike(invocations, newest) if newest is not None else set()
    by_trial: dict[int, list[dict]] = {}
    for r in rows:
        if r["invocation_id"] in alike:
            by_trial.setdefault(r["trial_id"], []).append(r)
    audits: dict[int, list[bool]] = {}
    for audit in store.audits(row["id"]):
        audits.setdefault(audit["trial_id"], []).append(audit["solved"])
    trials = [_trial(t, by_trial.get(t["id"], []), audits.get(t["id"], [])) for t in store.trials(row["id"])]
    front = _front(trials)
    shown = [r["id"] for t in trials for r in (t["verification"] or (t["runs"] if t["number"] in front else []))]
    totals = [i["totals"] or {} for i in invocations]
    return {
        "study": {key: row[key] for key in ("id", "name", "question", "env", "hash", "definition", "budget", "sampler", "created")},
        "machines": invocations,
        "trials": trials,
        "front": front,
        "recommended": _recommended(trials, 1.5),
        "search": _search(invocations, trials, rows),
        "curves": {run_id: curve.tolist() for run_id, curve in store.curves(row["id"], shown).items()} if shown else {},
        "counts": {**store.counts(row["id"]), "platform_seconds": sum(t.get("platform_cpu_seconds", 0.0) for t in totals),
                   "sampler_seconds": sum(t.get("sampler_cpu_seconds", 0.0) for t in totals)},
    }


def best(data: dict, max_parameters: int | None = None, within: float = 1.5) -> dict:
    """The front and the recommended trial as JSON: verified numbers for a verified trial, else the search's claims.

    `max_parameters` leaves larger networks out; `recommended` is the smallest verified network whose restart ERT is within `within` ×
    of the fastest verified one's, None where nothing is verified.
    """
    trials = [t for t in data["trials"] if max_parameters is None or (t["parameters"] or 0) <= max_parameters]
    by_number = {t["number"]: t for t in trials}
    entries = []
    for number in _front(trials):
        trial = by_number[number]
        summary = trial["verified"] or trial["search"]
        entries.append({
            "trial": number,
            "parameters": trial["parameters"],
            "params": trial["params"],
            "runs": summary["runs"],
            "solved": summary["solved"],
            "seconds": {key: _finite(summary["seconds"][key]) for key in ("median", "low", "high", "restart_ert", "olympic")},
            "env_steps": summary["env_steps"],
            "steps_per_second": summary["steps_per_second"],
            "verified": trial["is_verified"],
        })
    machines = data["machines"]
    return {
        "study": data["study"]["name"],
        "env": data["study"]["env"],
        "machine": machines[-1]["machine"] if machines else None,
        "front": entries,
        "recommended": _recommended(trials, within),
    }


def runner_up(data: dict, max_parameters: int | None = None, within: float = 1.5) -> dict | None:
    """The recommended trial beside the fastest other verified one: `ratio` of their restart ERTs with its 95% interval and the
    p-value of no difference; None where there are not two. An end that is not bounded is None.

    The same seeds chose the two among the finalists, so a p-value just below 0.05 is no proof."""
    trials = [t for t in data["trials"] if max_parameters is None or (t["parameters"] or 0) <= max_parameters]
    verified = {t["number"]: t for t in trials if t["is_verified"]}
    first = _recommended(trials, within)
    others = [number for number in verified if number != first]
    if first is None or not others:
        return None
    other = min(others, key=lambda number: (_time(verified[number]), number))
    found = comparison.compare(*(c for number in (first, other) for c in _outcomes(verified[number]["verification"], "seconds")))
    return {"trial": other, **{key: _finite(getattr(found, key)) for key in ("ratio", "low", "high", "p_value")}}


def _outcomes(runs: Sequence[dict], seconds: str) -> tuple[np.ndarray, np.ndarray]:
    """(times, solved) as statistics takes them; `seconds` is the column of the times."""
    return statistics.outcomes((r["status"], r[seconds] or 0.0, r["reason"] or "") for r in runs)


def summary(runs: Sequence[dict], seconds: str, all_cores: Sequence[dict] = (), audits: Sequence[bool] = ()) -> dict | None:
    """What runs of one trial say together; `seconds` is the column of their times. None where no run says anything.

    All intervals are at 95%; docs/coverage.md says how often they cover. `false_solves` is a share of `audits`."""
    runs = [r for r in runs if r["status"] != "crashed"]
    if not runs:
        return None
    times, solved = _outcomes(runs, seconds)
    count = int(np.sum(solved))
    low, high = statistics.clopper_pearson(count, len(runs))
    median, median_low, median_high = intervals.median(times, solved)
    ert_low, ert_high = intervals.restart_ert(times, solved)
    steps = [r["env_steps"] for r in runs if r["status"] == "solved"]
    return {
        "runs": len(runs),
        "solved": count,
        "solved_low": low,
        "solved_high": high,
        "seconds": {
            "median": median,
            "low": median_low,
            "high": median_high,
            "restart_ert": statistics.restart_ert(times, solved),
            "restart_ert_low": ert_low,
            "restart_ert_high": ert_high,
            "olympic": statistics.olympic_mean([t for t, s in zip(times, solved, strict=True) if s]),
        },
        "env_steps": {"median": float(np.median(steps)) if steps else None},
        "steps_per_second": _speed(runs, seconds),
        "steps_per_second_all_cores": _speed(all_cores, "seconds"),
        "false_solves": 1 - sum(audits) / len(audits) if audits else None,
    }


def _trial(row: dict, runs: list[dict], audits: list[bool]) -> dict:
    search = [r for r in runs if r["purpose"] == "search"]
    verification = [r for r in runs if r["purpose"] == "verify"]
    verified = summary(verification, "seconds", [r for r in runs if r["purpose"] == "calibrate"], audits)
    keys = ("id", "number", "params", "parameters", "origin", "state", "value")
    return {
        **{key: row[key] for key in keys},
        "runs": search,
        "verification": verification,
        "search": summary(search, "cpu_seconds"),
        "verified": verified,
        "is_verified": verified is not None and statistics.is_verified(verified["solved"], verified["runs"]),
    }


def _front(trials: list[dict]) -> list[int]:
    """Trial numbers, smallest network first: the front of what has only been claimed, where it is smaller than any verified, then
    that of the verified trials.

    Each is found by itself: the best of many claims looks faster than it is, so a claim never pushes a verified trial off, and
    what is recommended is always here."""
    verified = [t for t in trials if t["is_verified"]]
    least = min((t["parameters"] for t in verified), default=math.inf)
    claims = [t for t in trials if not t["is_verified"] and (t["parameters"] or math.inf) < least and _time(t) is not None]
    solid = [t for t in claims if t["verified"] or t["search"]["runs"] >= SOLID_RUNS and t["search"]["solved"] >= SOLID_SOLVES]
    kinds = (solid or ([] if verified else claims), verified)
    return [points[i]["number"] for points in kinds for i in statistics.front([(t["parameters"], _time(t)) for t in points])]


def _recommended(trials: list[dict], within: float) -> int | None:
    return statistics.recommended([(t["number"], t["parameters"], _time(t)) for t in trials if t["is_verified"]], within)


def _time(trial: dict) -> float | None:
    """Restart ERT in seconds: verified where measured, else as claimed; None where nothing solved."""
    found = trial["verified"] or trial["search"]
    return _finite(found["seconds"]["restart_ert"]) if found else None


def _search(invocations: list[dict], trials: list[dict], rows: list[dict]) -> list[dict]:
    """How the best restart ERT fell over the time of the search, all invocations one after the other."""
    numbers = {t["id"]: t["number"] for t in trials}
    kept = {r["id"] for t in trials for r in t["runs"]}
    runs, before = [], 0.0
    for invocation in invocations:
        begun, last = _instant(invocation["started"]), 0.0
        for r in rows:
            if r["invocation_id"] == invocation["id"] and r["purpose"] == "search":
                last = max(0.0, _instant(r["started"]) + (r["seconds"] or 0.0) + (r["setup_seconds"] or 0.0) - begun)
                pair = statistics.outcome(r["status"], r["cpu_seconds"] or 0.0, r["reason"] or "")
                if pair and r["id"] in kept:
                    runs.append((before + last, numbers[r["trial_id"]], *pair))
        before += (invocation["totals"] or {}).get("search_seconds", last)
    found = statistics.best_over_time(runs)
    points = [{"elapsed_seconds": elapsed, "best_restart_ert": ert, "trial": trial} for elapsed, ert, trial in found]
    return points + [{**points[-1], "elapsed_seconds": before}] if points else []


def _speed(runs: Sequence[dict], seconds: str) -> float | None:
    """Median env steps per second of runs."""
    speeds = [r["env_steps"] / r[seconds] for r in runs if r[seconds] and r["env_steps"]]
    return float(np.median(speeds)) if speeds else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _instant(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()
