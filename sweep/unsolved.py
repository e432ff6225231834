"""Why a study without a solve has none: how many trials it had, how near the best came, and what to change. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sweep import formats

#: Run.reason of a run that its limit of env steps ended.
STEP_LIMIT = "env-step limit"
#: A search whose longest run had less than this share of `run` was too short to say anything of `run`.
LONG_ENOUGH = 0.9


def facts(data: dict) -> dict[str, Any] | None:
    """What there is to say of a study where nothing solved, from what `results.collect` gives; None where something did.

    `reached` is the best mean return of training episodes (or mean metric, where `key` is "metric"), None where no episode ended."""
    counts = _counts(data)
    trials, runs = data.get("trials") or [], _ended(data)
    if any(r.get("status") == "solved" for r in runs):
        return None
    goal = formats.goal((data.get("study") or {}).get("definition"))
    budget = (data.get("study") or {}).get("budget") or {}
    longest = [value for r in runs if (value := formats.finite(r.get("cpu_seconds"))) is not None]
    return {
        "trials": sum(bool(t.get("runs") or t.get("verification")) for t in trials),
        "runs": counts,
        "solved_elsewhere": counts["solved"],  # by another machine or build: such times say nothing here
        "key": "metric" if goal.best == "best_metric" else "mean_return",
        "asked": goal.target,
        "reached": best_mean(data),
        "run_seconds": formats.finite(budget.get("run_seconds")),
        "longest_run_seconds": max(longest, default=None),
        "at_step_limit": sum(r.get("reason") == STEP_LIMIT for r in runs),
        "crash": next((str(c["reason"]) for c in crashes(data)), None),
    }


def best_mean(data: dict) -> float | None:
    """The best mean return of training episodes that any run reached, or mean metric where that is solved on."""
    best = formats.goal((data.get("study") or {}).get("definition")).best
    return max((value for r in _ended(data) if (value := formats.finite(r.get(best))) is not None), default=None)


def crashes(data: dict) -> list[dict]:
    """Why runs crashed, the commonest reason first."""
    reasons = Counter(run.get("reason") for run in _ended(data) if run.get("status") == "crashed")
    return [{"reason": reason, "runs": n} for reason, n in reasons.most_common()]


def sentence(found: dict[str, Any] | None) -> str:
    """`facts` in words, on one line without its full stop; empty where something solved, or no run has ended."""
    if not found:
        return ""
    runs, total = found["runs"], sum(found["runs"].values())
    if not total:
        return ""
    if found["solved_elsewhere"]:
        return f"No trial has solved on this machine and build; {_runs(found['solved_elsewhere'])} of others did: run the study here"
    none = f"0 of {formats.whole(found['trials'])} {'trial' if found['trials'] == 1 else 'trials'} solved"
    if runs["crashed"] == total:
        return f"{none}: {_all(total)} crashed" + (f" ({found['crash']})" if found["crash"] else "")
    if runs["diverged"] == total:
        return f"{none}: {_all(total)} diverged; look at the environment's rewards and observations"
    limit = f" in {formats.duration(found['run_seconds'])}" if found["run_seconds"] else ""
    return f"{none}{limit}; {_reached(found)}: {_advice(found)}"


def _reached(found: dict[str, Any]) -> str:
    what = "metric" if found["key"] == "metric" else "return"
    if found["reached"] is None:
        return "no run ended enough episodes to judge"
    if found["asked"] is None:
        return f"the best reached a mean {what} of {formats.number(found['reached'])}"
    reached = f"the best reached {_below(found['reached'], found['asked'])} of {found['asked']:,.10g}"
    return reached + (" in training, but its frozen policy did not" if found["reached"] >= found["asked"] else "")


def _below(reached: float, asked: float) -> str:
    """`reached` with as few digits as tell it from `asked`."""
    texts = [f"{reached:,.{digits}g}" for digits in range(4, 12)]
    return next((text for text in texts if text != f"{asked:,.10g}"), texts[0])


def _advice(found: dict[str, Any]) -> str:
    lower = f"lower `{found['key']}`"
    if found["at_step_limit"]:
        return f"raise `env_steps`, or {lower}"
    longest, limit = found["longest_run_seconds"], found["run_seconds"]
    if longest is not None and limit and longest < LONG_ENOUGH * limit:
        return f"its longest run had {formats.duration(longest)}; give the search more time (--budget), or {lower}"
    return f"raise `run`, or {lower}"


def _runs(count: int) -> str:
    return f"{formats.whole(count)} {'run' if count == 1 else 'runs'}"


def _all(count: int) -> str:
    return "its run" if count == 1 else f"all {_runs(count)}"


def _ended(data: dict) -> list[dict]:
    return [r for t in data.get("trials") or [] for r in (*(t.get("runs") or ()), *(t.get("verification") or ()))]


def _counts(data: dict) -> dict[str, int]:
    by_status = (data.get("counts") or {}).get("runs") or {}
    return {s: int(formats.finite(by_status.get(s)) or 0) for s in ("solved", "censored", "diverged", "crashed")}
