"""A study -> its report: a folder of two files that opens anywhere, offline."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import figures, formats
from .figures import state, summary, time_of

#: What a report consists of. index.html asks for plotly.min.js and for nothing else.
PAGE, PLOTLY = "index.html", "plotly.min.js"
#: Says in the page that `sweep` wrote it, and for which study.
MARK = "sweep-study"
#: Most trials that get a row and their params; the rest is in the database.
MOST_TRIALS = 40


class PageError(ValueError):
    """A report that cannot be written, in one line."""


def write_report(data: dict, folder: str | Path) -> Path:
    """Writes the report of a study into `folder` and gives the path of its page.

    `data` is what `results.collect` gives. A folder that is absent or empty is made; in one that holds a report of the same
    study the report's own files are replaced, each at once, and nothing else is touched. Anything else is a PageError.
    """
    from plotly.offline import get_plotlyjs

    folder = Path(folder)
    name = str(data["study"]["name"])
    exists = _check(folder, name)
    page = render(data).encode("utf-8", "replace")
    try:
        if not exists:
            _write_folder(folder, {PLOTLY: get_plotlyjs().encode(), PAGE: page})
        else:
            script = get_plotlyjs().encode()
            if not (folder / PLOTLY).is_file() or (folder / PLOTLY).stat().st_size != len(script):
                _replace(folder / PLOTLY, script)
            _replace(folder / PAGE, page)
    except OSError as error:
        raise PageError(f"{folder}: the report cannot be written: {error.strerror or error}") from None
    return folder / PAGE


def _check(folder: Path, name: str) -> bool:
    """Whether `folder` already holds a report of study `name`; PageError where it holds something else."""
    try:
        if not folder.is_dir():
            if folder.exists() or folder.is_symlink():
                raise PageError(f"{folder} is a file; a report needs a folder of its own, and --out names another")
            return False
        if not any(folder.iterdir()):
            return False
        page = folder / PAGE
        head = page.read_bytes()[:4096].decode("utf-8", "replace") if page.is_file() else ""
    except OSError as error:
        raise PageError(f"{folder}: cannot be read: {error.strerror or error}") from None
    if f'<meta name="{MARK}"' not in head:
        raise PageError(f"{folder} holds files that are not a report; nothing was written, and --out names another folder")
    if f'<meta name="{MARK}" content="{_escaped(name)}">' not in head:
        raise PageError(f"{folder} holds the report of another study; nothing was written, and --out names another folder")
    return True


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """All of `files` or nothing: a folder beside it takes its place when it is whole."""
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name[:40]}.", dir=folder.parent))
    try:
        for name, content in files.items():
            (made / name).write_bytes(content)
        made.chmod(0o777 & ~_umask())
        made.rename(folder)  # takes the place of an empty folder too
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _replace(path: Path, content: bytes) -> None:
    """`content` takes the place of the file at once: whoever reads finds the old or the new one, whole."""
    handle, made = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(made, 0o666 & ~_umask())
        os.replace(made, path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# -- the page ----------------------------------------------------------------------------------------------------


def render(data: dict) -> str:
    """The page as HTML; style, script and figures are inside, plotly.min.js stands beside it."""
    import jinja2
    import markupsafe

    templates = _templates()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for name in ("number", "whole", "short", "seconds", "duration", "percent", "param"):
        environment.filters[name] = getattr(formats, name)
    environment.filters["moment"] = moment
    return environment.get_template("report.html").render(
        **context(data),
        mark=MARK,
        style=markupsafe.Markup((templates / "style.css").read_text("utf-8")),
        script=markupsafe.Markup((templates / "report.js").read_text("utf-8")),
        drawings=markupsafe.Markup(drawings(data)),
    )


def _templates() -> Path:
    package = Path(__file__).resolve().parent
    return next(p for p in (package / "reports", package.parent / "reports") if p.is_dir())


def _escaped(text: str) -> str:
    import markupsafe

    return str(markupsafe.escape(text))


def drawings(data: dict) -> str:
    """All figures as JSON that cannot end the script element it stands in: {"figures": {name: [figure of each view]}, "dark": ...}."""
    goal = formats.finite(((data["study"].get("definition") or {}).get("solve") or {}).get("mean_return"))
    views = {
        "front": [figures.front(data), figures.front(data, "median")],
        "kaplan-meier": [figures.kaplan_meier(data)],
        "learning": [figures.learning_curves(data, against, goal) for against in ("seconds", "env_steps")],
        "search": [figures.search(data)],
        "time": [figures.time_spent(data)],
    }
    parts = (f"{json.dumps(name)}:[{','.join(f.to_json() for f in some)}]" for name, some in views.items())
    text = '{"dark":' + json.dumps(figures.DARK) + ',"figures":{' + ",".join(parts) + "}}"
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


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
        by_size = sorted(some, key=lambda t: (formats.finite(t.get("parameters")) or 0, t["number"]))[:MOST_TRIALS]
        return [{**row(t, claim), "front": t in front, "recommended": t is recommended} for t in by_size]

    return {
        "name": name,
        "env": str(study.get("env") or definition.get("env") or ""),
        "question": _paragraphs(study.get("question")),
        "hash": str(study.get("hash") or "")[:12],
        "written": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "answer": row(recommended, claim=False) if recommended else None,
        "fastest": row(min(verified, key=lambda t: time_of(summary(t)) or math.inf), claim=False) if verified else None,
        "why_not": [] if recommended else why_not(data, measured),
        "commands": commands(name, recommended["number"]) if recommended else [f"sweep run {shlex.quote(name)}"],
        "asked": asked(study),
        "machine": machine_lines(machines),
        "invocations": [{k: m.get(k) for k in ("started", "ended", "workers", "command")} for m in machines[-MOST_TRIALS:]],
        "space": space_rows(definition.get("dimensions") or {}),
        "counts": counts,
        "solved_trials": sum(time_of(t.get("search")) is not None for t in trials.values()),
        "measured": rows(measured, claim=False),
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
    }  # fmt: skip


def row(trial: dict, claim: bool) -> dict[str, Any]:
    """A trial's numbers as text: what the search claims of it, or what is best known."""
    of = (trial.get("search") if claim else summary(trial)) or {}
    time = of.get("seconds") or {}

    def span(low: Any, high: Any, text=formats.number) -> str:
        return "" if formats.real(low) is None and formats.real(high) is None else f"{text(low)} to {text(high)}"

    return {
        "trial": trial["number"],
        "parameters": formats.whole(trial.get("parameters")),
        "state": state(trial),
        "origin": str(trial.get("origin") or ""),
        "solved": f"{formats.whole(of.get('solved'))} of {formats.whole(of.get('runs'))}",
        "runs": formats.whole(of.get("runs")),
        "solved_interval": span(of.get("solved_low"), of.get("solved_high"), formats.percent),
        "median": formats.number(time.get("median")),
        "median_interval": span(time.get("low"), time.get("high")),
        "ert": formats.number(time.get("restart_ert")),
        "ert_interval": span(time.get("restart_ert_low"), time.get("restart_ert_high")),
        "claimed": formats.number(((trial.get("search") or {}).get("seconds") or {}).get("restart_ert")),
        "olympic": formats.number(time.get("olympic")),
        "env_steps": formats.short((of.get("env_steps") or {}).get("median")),
        "alone": formats.short(of.get("steps_per_second")),
        "all_cores": formats.short(of.get("steps_per_second_all_cores")),
        "false_solves": formats.percent(of.get("false_solves")),
    }


def asked(study: dict) -> list[tuple[str, str]]:
    """(what, in words) of the study: when it is solved and what it may spend."""
    definition = study.get("definition") or {}
    solve, budget = definition.get("solve") or {}, study.get("budget") or definition.get("budget") or {}
    lines = []
    if solve:
        acting = "acting greedily" if solve.get("policy") == "greedy" else "acting as in training"
        lines.append(("Solved means", f"a frozen copy of the policy reaches a mean return of {formats.number(solve.get('mean_return'))} "
                                      f"over {formats.whole(solve.get('episodes'))} fresh episodes, {acting}"))  # fmt: skip
    words = [(formats.duration(budget.get(f"{key}_seconds")), text) for key, text in
             (("study", "to search"), ("verify", "to measure finalists again"), ("run", "for a run at most"))]  # fmt: skip
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
    file = (re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.") or "study") + f"-{number}.toml"
    return [f"sweep export {shlex.quote(name)} {file} --trial {number}", f"sweep train {file}"]


def why_not(data: dict, measured: list[dict]) -> list[str]:
    """Why no trial is recommended, in sentences."""
    trials = data.get("trials") or []
    runs = _run_counts(data)
    if not trials or not runs["runs"]:
        return ["No run has ended yet."]
    if not runs["solved"]:
        returns = [formats.finite(r.get("best_return")) for t in trials for r in t.get("runs") or []]
        best = max((r for r in returns if r is not None), default=None)
        seen = "" if best is None else f" The best mean return in training was {formats.number(best)}."
        return [f"None of {formats.whole(runs['runs'])} runs has solved.{seen}"]
    if not measured:
        claims = sorted((t for t in trials if time_of(t.get("search"))), key=lambda t: time_of(t["search"]))
        claim = ""
        if claims:
            claim = (f" The fastest claim of the search is trial {claims[0]['number']}, {formats.whole(claims[0].get('parameters'))} "
                     f"parameters, with a restart ERT of {formats.seconds(time_of(claims[0]['search']))}.")  # fmt: skip
        return ["No finalist has been measured again with fresh seeds yet." + claim,
                "Claims are optimistic: the best of many trials looks faster than it is."]  # fmt: skip
    best = measured[0]
    of = best["verified"]
    return [f"{len(measured)} finalist{'s were' if len(measured) > 1 else ' was'} measured again; verified is one with at least 12 fresh "
            f"seeds of which at least 80% solve.",
            f"The closest is trial {best['number']}, {formats.whole(best.get('parameters'))} parameters: {formats.whole(of.get('solved'))} "
            f"of {formats.whole(of.get('runs'))} seeds solved, restart ERT {formats.seconds(time_of(of))}."]  # fmt: skip


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
        cores = formats.finite(about.get("cores"))
        words = [about.get("cpu"), None if cores is None else f"{cores:.0f} core{'s' if cores != 1 else ''}",
                 formats.bytes_(about["memory_bytes"]) if formats.finite(about.get("memory_bytes")) else None, about.get("system")]  # fmt: skip
        return ", ".join(str(w) for w in words if w)

    def build(about: dict) -> str:
        semantics = about.get("semantics")
        words = [about.get("isa"), about.get("compiler"), None if semantics is None else f"semantics {semantics}"]
        return ", ".join(str(w) for w in words if w)

    return {
        "hardware": distinct(hardware(m.get("machine") or {}) for m in machines),
        "build": distinct(build(m.get("build") or {}) for m in machines),
        "workers": distinct(formats.whole(m.get("workers")) for m in machines if m.get("workers")),
    }


def space_rows(dimensions: dict[str, Any]) -> list[dict]:
    """For each hyperparameter of the space: name, what it does, its kind and the values it may take; searched ones first."""
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
        rows.append({"name": name, "what": known.what if known else "", "kind": str(kind).replace("_", " "), "values": values})
    return sorted(rows, key=lambda row: row["kind"] == "fixed")


def moment(value: Any) -> str:
    """An instant as 2026-03-04 05:06 UTC; text that is none as it is."""
    try:
        when = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return str(value or formats.ABSENT)
    if when.tzinfo is not None:
        when = when.astimezone(datetime.timezone.utc)
    return f"{when:%Y-%m-%d %H:%M} UTC"


def _paragraphs(text: Any) -> list[str]:
    return [" ".join(p.split()) for p in re.split(r"\n\s*\n", str(text or "")) if p.strip()]
