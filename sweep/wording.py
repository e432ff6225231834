"""A study's results in words and tables: all that its report says outside the figures."""

from __future__ import annotations

import datetime
import math
import re
import shlex
import statistics
from collections.abc import Iterable
from typing import Any

from . import bounds, figures, formats, importance, unsolved
from .figures import state, summary, time_of

#: Most trials that get a row and their params; the rest is in the database.
MOST_TRIALS = 40


def context(data: dict) -> dict[str, Any]:
    """What the template fills in, beside the figures; text is not escaped yet."""
    study = data["study"]
    name = str(study["name"])
    definition = study.get("definition") or {}
    trials = figures.by_number(data)
    finalists = figures.finalists(data)
    measured = [t for t in finalists if t.get("verified")]
    verified = [t for t in measured if t.get("is_verified")]
    front = [trials[n] for n in data.get("front") or [] if n in trials]
    listed = {t["number"]: t for t in [*front, *measured]}.values()
    recommended = trials.get(data.get("recommended"))
    machines = data.get("machines") or []
    counts = {**_run_counts(data), "trials": (data.get("counts") or {}).get("trials", len(trials))}
    varied = figures.varied(data)

    def rows(some: Iterable[dict], claim: bool) -> list[dict]:
        first = list(some)[:MOST_TRIALS]
        by_size = sorted(first, key=lambda t: (formats.finite(t.get("parameters")) or 0, t["number"]))
        on_front = {t["number"] for t in front}
        return [{**row(t, claim), "front": t["number"] in on_front, "recommended": t is recommended} for t in by_size]

    return {
        "name": name,
        "env": str(study.get("env") or definition.get("env") or ""),
        "question": _paragraphs(study.get("question")),
        "hash": str(study.get("hash") or "")[:12],
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "answer": row(recommended, claim=False) if recommended else None,
        "only": len(verified) == 1,
        "smallest": smallest(recommended, definition.get("dimensions") or {}) if recommended else None,
        "fastest": row(min(verified, key=lambda t: time_of(summary(t)) or math.inf), claim=False) if verified else None,
        "at_ends": [bounds.sentence(found) for found in bounds.at_ends(data)],
        "importance": importance.rows(found := importance.of(data)),
        "does_not_matter": importance.sentence(found),
        "importance_of": found,
        "why_not": [] if recommended else why_not(data, measured),
        "commands": commands(name, recommended["number"]) if recommended else [f"sweep run {shlex.quote(name)}"],
        "asked": asked(study),
        "machine": machine_lines(machines),
        "invocations": [{key: m.get(key) for key in ("started", "ended", "workers", "command")} for m in machines[-40:]],
        "space": space_rows(definition.get("dimensions") or {}),
        "counts": counts,
        "solved_trials": sum(time_of(t.get("search")) is not None for t in trials.values()),
        "thinned": len(trials) > figures.MOST_DOTS,
        "measured": rows(measured, claim=False),
        "claims_held": claims_held(verified),
        "claimed": rows([t for t in front if not t.get("verified")], claim=True),
        "listed": [
            {**r, "commands": commands(name, r["trial"]),
             "params": {k: formats.param(v) for k, v in (trials[r["trial"]].get("params") or {}).items()}}
            for r in rows(listed, claim=False)
        ],
        "varied": varied,
        "shown_curves": min(len(finalists), figures.MOST_CURVES),
        "finalists": len(finalists),
        "training_share": training_share(machines),
    }


def row(trial: dict, claim: bool) -> dict[str, Any]:
    """A trial's numbers as text: what the search claims of it, or what is best known."""
    of = (trial.get("search") if claim else summary(trial)) or {}
    time = of.get("seconds") or {}
    all_cores = formats.finite(of.get("steps_per_second_all_cores"))

    def span(low: Any, high: Any, text=formats.number) -> str:
        if formats.real(low) is None:
            return ""
        return f"{text(low)} to {'∞' if formats.real(high) is None else text(high)}"

    return {
        "trial": trial["number"],
        "parameters": formats.whole(trial.get("parameters")),
        "state": state(trial),
        "origin": str(trial.get("origin") or ""),
        "solved": f"{formats.whole(of.get('solved'))} of {formats.whole(of.get('runs'))}",
        "runs": formats.whole(of.get("runs")),
        "all_solved": of.get("runs") is not None and of.get("solved") == of.get("runs"),
        "solved_interval": span(of.get("solved_low"), of.get("solved_high"), formats.percent),
        "median": formats.number(time.get("median")),
        "median_interval": span(time.get("low"), time.get("high")),
        "ert": formats.number(time.get("restart_ert")),
        "ert_interval": span(time.get("restart_ert_low"), time.get("restart_ert_high")),
        "claimed": formats.number(((trial.get("search") or {}).get("seconds") or {}).get("restart_ert")),
        "olympic": formats.number(time.get("olympic")),
        "env_steps": formats.short((of.get("env_steps") or {}).get("median")),
        "alone": formats.short(of.get("steps_per_second")),
        "all_cores": "" if all_cores is None else formats.short(all_cores),
        "false_solves": formats.percent(of.get("false_solves")),
    }


def claims_held(verified: list[dict]) -> str:
    """How much longer verified trials take than the search had claimed of them, in a sentence; empty where none has both."""
    pairs = [(time_of(t.get("verified")), time_of(t.get("search"))) for t in verified]
    ratios = [measured / claimed for measured, claimed in pairs if measured and claimed]
    if not ratios:
        return ""
    of = "the verified trial takes" if len(ratios) == 1 else f"the {len(ratios)} verified trials take, at the median,"
    return (f"Measured alone with fresh seeds, in wall seconds, {of} {formats.number(statistics.median(ratios))} × the restart ERT that the "
            "search claimed of them in CPU seconds: the best of many claims looks faster than it is.")


def smallest(trial: dict, dimensions: dict[str, Any]) -> list[str] | None:
    """Where the trial's network is the smallest of the space: the hyperparameters to lower for a smaller one, none where
    the trainer has none. None where it is not, or where that is unknown."""
    from trainer_native import config

    params, lower = trial.get("params") or {}, []
    for name in ("hidden", "layers"):
        known = config.HYPERPARAMETERS[name]
        values = dimensions.get(name, known.default)
        if isinstance(values, dict):
            values = next(iter(values.values()), None)
        values = [formats.finite(v) for v in (values if isinstance(values, (list, tuple)) else [values])]
        if not values or None in values or formats.finite(params.get(name, known.default)) != min(values):
            return None
        if min(values) > known.low:
            lower.append(name)
    return lower


def asked(study: dict) -> list[tuple[str, str]]:
    """(what, in words) of the study: when it is solved and what it may spend."""
    definition = study.get("definition") or {}
    solve, budget = definition.get("solve") or {}, study.get("budget") or definition.get("budget") or {}
    lines = []
    if solve:
        acting = "acting greedily" if solve.get("policy") == "greedy" else "acting as in training"
        of = formats.goal(definition)
        reaches = f"reaches a {of.what} of {formats.number(of.target)}"
        over = f"over {formats.whole(solve.get('episodes'))} fresh episodes"
        lines.append(("Solved means", f"a frozen copy of the policy {reaches} {over}, {acting}"))
    words = [(formats.duration(budget.get(f"{key}_seconds")), text) for key, text in
             (("study", "to search"), ("verify", "to measure finalists again"), ("run", "for a run at most"))]
    words = [f"{value} {text}" for value, text in words if value != formats.ABSENT]
    if formats.finite(budget.get("seeds")):
        words.append(f"up to {formats.whole(budget['seeds'])} seeds for a trial while searching")
    if formats.finite(budget.get("max_env_steps")):
        words.append(f"at most {formats.short(budget['max_env_steps'])} env steps for a run")
    if words:
        lines.append(("Budget", ", ".join(words)))
    sampler = study.get("sampler") or definition.get("sampler")
    return lines + ([("Sampler", str(sampler))] if sampler else [])


def commands(name: str, number: int) -> list[str]:
    """The shell commands that export a trial and train it."""
    file = (re.sub(r"[^\w.]+", "-", name, flags=re.ASCII).strip("-.") or "study") + f"-{number}.toml"
    return [f"sweep export {shlex.quote(name)} {file} --trial {number}", f"sweep train {file}"]


def why_not(data: dict, measured: list[dict]) -> list[str]:
    """Why no trial is recommended, in sentences."""
    trials = data.get("trials") or []
    runs = _run_counts(data)
    if not trials or not runs["runs"]:
        return ["No run has ended yet."]
    if line := unsolved.sentence(unsolved.facts(data)):
        return [line.replace("`", "") + "."]
    if not measured:
        claims = [t for t in trials if time_of(t.get("search"))]
        claim = row(min(claims, key=lambda t: time_of(t["search"])), claim=True) if claims else None
        fastest = "The fastest claim of the search is trial {trial}, {parameters} parameters: restart ERT {ert} s."
        return [
            "No finalist has been measured again with fresh seeds yet.",
            *([fastest.format(**claim)] if claim else []),
            "Claims are optimistic: the best of many trials looks faster than it is.",
        ]
    best = row(measured[0], claim=False)
    what = "finalist was" if len(measured) == 1 else "finalists were"
    rule = "verified is one with at least 12 fresh seeds of which at least 80% solve."
    closest = f"The closest is trial {best['trial']}, {best['parameters']} parameters: {best['solved']} seeds solved"
    return [f"{len(measured)} {what} measured again; {rule}", f"{closest}, restart ERT {best['ert']} s."]


def _run_counts(data: dict) -> dict[str, int]:
    by_status = (data.get("counts") or {}).get("runs") or {}
    counts = {s: int(formats.finite(by_status.get(s)) or 0) for s in ("solved", "censored", "diverged", "crashed")}
    return {**counts, "runs": sum(counts.values())}


def training_share(machines: list[dict]) -> float | None:
    """The share of the workers' time that was training, over all invocations that say so."""
    totals = [m.get("totals") or {} for m in machines]
    worker = sum(formats.finite(t.get("worker_seconds")) or 0 for t in totals)
    training = sum(formats.finite(t.get("training_seconds")) or 0 for t in totals)
    return training / worker if worker and training else None


def machine_lines(machines: list[dict]) -> dict[str, str]:
    """The distinct machines and builds in words; more than one only where invocations differ."""

    def distinct(lines: Iterable[str]) -> str:
        return "; ".join(dict.fromkeys(line for line in lines if line))

    def hardware(about: dict) -> str:
        cores, memory = formats.finite(about.get("cores")), formats.finite(about.get("memory_bytes"))
        words = [
            about.get("cpu"),
            f"{cores:.0f} core{'' if cores == 1 else 's'}" if cores else None,
            formats.bytes_(memory) if memory else None,
            about.get("system"),
        ]
        return ", ".join(str(w) for w in words if w)

    def build(about: dict) -> str:
        semantics = formats.finite(about.get("semantics"))
        words = [about.get("isa"), about.get("compiler"), None if semantics is None else f"semantics {semantics:.0f}"]
        return ", ".join(str(w) for w in words if w)

    return {
        "hardware": distinct(hardware(m.get("machine") or {}) for m in machines),
        "build": distinct(build(m.get("build") or {}) for m in machines),
        "workers": distinct(formats.whole(m.get("workers")) for m in machines if m.get("workers")),
    }


def space_rows(dimensions: dict[str, Any]) -> list[dict]:
    """For each hyperparameter of the space: its name, values, kind and what it does; searched ones first."""
    from trainer_native import config

    rows = []
    for name, value in dimensions.items():
        known = config.HYPERPARAMETERS.get(name)
        kind, values = "fixed", formats.param(value)
        if isinstance(value, dict) and len(value) == 1:
            [(kind, ends)] = value.items()
            values = " to ".join(map(formats.param, ends)) if isinstance(ends, (list, tuple)) else formats.param(ends)
        elif isinstance(value, (list, tuple)):
            kind = "choice"
        what = known.what if known else ""
        rows.append({"name": name, "what": what, "kind": str(kind).replace("_", " "), "values": values})
    return sorted(rows, key=lambda row: row["kind"] == "fixed")


def moment(value: Any) -> str:
    """An instant as 2026-03-04 05:06 UTC; text that is none as it is."""
    try:
        when = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return str(value or formats.ABSENT)
    if when.tzinfo is not None:
        when = when.astimezone(datetime.UTC)
    return f"{when:%Y-%m-%d %H:%M} UTC"


def _paragraphs(text: Any) -> list[str]:
    return [" ".join(p.split()) for p in re.split(r"\n\s*\n", str(text or "")) if p.strip()]
