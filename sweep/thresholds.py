"""What a study would have found had it asked for less: times at which learning curves first reach a lower threshold. Pure.

A curve holds the mean of the last training episodes after an iteration, in at most 127 points; its last point, where the run solved, is
what the frozen policy was confirmed at. So a crossing is known to lie between two points, and the later one counts. No frozen policy was
tried at the threshold, and the time that a confirmation takes is in no crossing but that of the solve itself. Runs end at the study's own
target: above it their curves say nothing of a run that would have gone on.
"""

from __future__ import annotations

import math
import statistics as numbers
from collections.abc import Mapping

import numpy as np

from sweep import formats, results, statistics

#: Reason of a run that is made to end where it reaches a threshold.
REACHED = "reached in training"


class ThresholdError(ValueError):
    """A threshold of which the study's curves say nothing; the message is one line for the user."""


def at(data: dict, curves: Mapping[int, np.ndarray], threshold: float) -> tuple[dict, dict]:
    """(`data` as `results.collect` gives it, but with runs that end where their curve first reaches `threshold`; how that was found).

    A run that never does keeps its end and its reason. `curves`: run id -> [points, 4], as Store.curves."""
    goal = formats.goal(data["study"]["definition"])
    _check(data, curves, threshold, goal)
    found = {"threshold": threshold, "what": goal.what, "target": goal.target, "late": None, "without_curve": 0}
    if threshold == goal.target:
        return data, found
    late: list[float] = []

    def moved(runs: list[dict]) -> list[dict]:
        kept = []
        for run in runs:
            curve = curves.get(run["id"])
            if run["status"] != "crashed" and (curve is None or not len(curve)):
                found["without_curve"] += 1
                continue
            kept.append(crossed(run, curve, threshold, goal.best, late))
        return kept

    trials = [_summed({**t, "runs": moved(t["runs"]), "verification": moved(t["verification"])}) for t in data["trials"]]
    found["late"] = numbers.median(late) if late else None
    moved_data = {**data, "trials": trials}
    best = results.best(moved_data)
    return {**moved_data, "front": [entry["trial"] for entry in best["front"]], "recommended": best["recommended"]}, found


def crossed(run: dict, curve: np.ndarray | None, threshold: float, best: str, late: list[float] | None = None) -> dict:
    """`run` as solved where its curve first reaches `threshold`, or as it is where it never does.

    `best` is the column with the highest mean of any iteration: one between two points counts at the run's end. `late` gets the share of the crossing's time that lies after the point before: so much too late the time may be."""
    if run["status"] == "crashed" or curve is None:
        return run
    points = curve[np.isfinite(curve).all(axis=1)]
    there = np.flatnonzero(points[:, 3] >= threshold)
    if not len(there):
        # A solve reached it, whatever the trainer's curve ends with.
        return run if (run[best] if run[best] is not None else -math.inf) < threshold else {**run, "status": "solved", "reason": REACHED}
    i = int(there[0])
    cpu, wall, env_steps, _ = points[i]
    if late is not None and cpu > 0:
        late.append(1.0 - (points[i - 1, 0] if i else 0.0) / cpu)
    return {**run, "status": "solved", "reason": REACHED, "cpu_seconds": float(cpu), "seconds": float(wall),
            "env_steps": int(env_steps)}


def answers(data: dict, max_parameters: int | None, within: float) -> dict[str, dict | None]:
    """By `verified` and `search`: the fastest trial, the smallest within `within` × of it, and how many trials and runs that rests on.

    Verified are wall seconds of fresh seeds, the search's CPU seconds are of trials as solid as a front of claims asks for."""
    trials = [t for t in data["trials"] if max_parameters is None or (t["parameters"] or 0) <= max_parameters]
    claims = [t for t in trials if t["search"] and t["search"]["solved"]]
    solid = [t for t in claims if t["search"]["runs"] >= results.SOLID_RUNS and t["search"]["solved"] >= results.SOLID_SOLVES]
    groups = {"verified": [t for t in trials if t["is_verified"]], "search": solid or claims}
    return {basis: _answer(group, basis, within) for basis, group in groups.items()}


def _answer(trials: list[dict], basis: str, within: float) -> dict | None:
    rated = [(t, e) for t in trials if math.isfinite(e := t[basis]["seconds"]["restart_ert"])]
    if not rated:
        return None

    def entry(trial: dict, seconds: float) -> dict:
        return {"trial": trial["number"], "parameters": trial["parameters"], "restart_ert": seconds,
                "runs": trial[basis]["runs"], "solved": trial[basis]["solved"]}

    fastest = min(rated, key=lambda r: (r[1], r[0]["number"]))
    index = statistics.recommended([(i, t["parameters"], e) for i, (t, e) in enumerate(rated)], within)
    return {"seconds": "wall" if basis == "verified" else "CPU", "trials": len(rated), "runs": sum(t[basis]["runs"] for t, _ in rated),
            "fastest": entry(*fastest), "smallest": entry(*rated[index])}


def sentences(found: dict, of: dict[str, dict | None], within: float) -> list[str]:
    """What a threshold's answer rests on, for a person: how it was found, then each basis."""
    asked = f"{found['what']} of {found['threshold']:,.10g}"
    if found["threshold"] == found["target"]:
        head = f"a {asked} is what the study itself asks: confirmed by frozen policies"
    else:
        head = (f"a {asked}, where the study asks {found['target']:,.10g}: times at which the mean of training episodes first reaches it, "
                "no frozen policy confirmed it")
    if found["late"] is not None:
        share = formats.percent(found["late"])
        first = ", as most are there at their first point" if found["late"] > 0.99 else ""
        head += f"; curves have points, so a time is late by {share} at most, for half of the runs{first}"
    if found["without_curve"]:
        head += f"; {formats.whole(found['without_curve'])} runs without a curve are left out"
    return [head + ".", *(_of_basis(basis, answer, within) for basis, answer in of.items() if answer)]


def _of_basis(basis: str, answer: dict, within: float) -> str:
    fastest, smallest = answer["fastest"], answer["smallest"]
    what = "verified, wall seconds of fresh seeds" if basis == "verified" else "claimed by the search, CPU seconds"
    same = smallest["trial"] == fastest["trial"]
    also = "no smaller one" if same else _named(smallest)
    return (f"{what}, {formats.whole(answer['runs'])} runs of {formats.whole(answer['trials'])} trials: fastest is {_named(fastest)}; "
            f"within {within:g} × of it, {also}.")


def _named(entry: dict) -> str:
    return (f"trial {entry['trial']} ({formats.whole(entry['parameters'])} parameters, restart ERT {formats.seconds(entry['restart_ert'])}, "
            f"{entry['solved']}/{entry['runs']})")


def _summed(trial: dict) -> dict:
    verified = results.summary(trial["verification"], "seconds")
    return {**trial, "search": results.summary(trial["runs"], "cpu_seconds"), "verified": verified,
            "is_verified": verified is not None and statistics.is_verified(verified["solved"], verified["runs"])}


def _check(data: dict, curves: Mapping[int, np.ndarray], threshold: float, goal: formats.Goal) -> None:
    if goal.target is None or threshold <= goal.target:
        return
    name, key = data["study"].get("label") or data["study"]["name"], "metric" if goal.best == "best_metric" else "mean_return"
    best = max((float(np.nanmax(c[:, 3])) for c in curves.values() if len(c) and np.isfinite(c[:, 3]).any()), default=None)
    reached = "" if best is None else f" (the highest point of any curve is {best:,.4g})"
    raise ThresholdError(
        f"study {name!r}: --at {threshold:,.10g} is above its {goal.what} of {goal.target:,.10g}, where its runs end{reached}; legal is up to "
        f"that. For more, raise {key} in [solve] and begin with what is known: `sweep run {data['study']['name']} --from {name}`")
