"""What each command does, as functions from options to plain data, and the words that show the data to a person."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sweep import formats, terminal


@contextlib.contextmanager
def _open(database: str, create: bool = False) -> Iterator[Any]:
    from sweep.store import Store

    with contextlib.closing(Store(database, create=create, readonly=not create)) as store:
        yield store


def _collect(database: str, study: str) -> dict:
    from sweep import results

    with _open(database) as store:
        data = results.collect(store, study)
        data["study"]["label"] = _label(data["study"], store.find(data["study"]["name"])["id"] == data["study"]["id"])
    return data


def _label(row: dict, newest: bool) -> str:
    """How a study is named to `sweep`: an older one of its name with the start of its hash."""
    return row["name"] if newest else f"{row['name']}@{row['hash'][:8]}"


def _report_folder(label: str) -> Path:
    return Path(f"{label.replace('@', '-')}-report")


# -- run, report ----------------------------------------------------------------------------------------


def run(name: str, database: str, budget: str | None, verify: str | None, run_limit: str | None, workers: int | None,
        seed: int, sampler: str | None, ray: str | None, folder: str | None, older: str | None = None) -> dict:
    """Search, measure finalists, report: the study's front with its counts and the report's page."""
    from sweep import engine, library, pages, results, study

    question = study.load(name, budget=budget, verify=verify, run=run_limit, sampler=sampler)
    target = Path(folder) if folder else _report_folder(question.name)
    pages.check(target, question.name)  # before the hours of the study, not after
    _check_writable(target)
    library.say_whose(question.env)
    first = _first(question, database, older) if older else []
    view = terminal.View()
    with _open(database, create=True) as store:
        _announce_change(question, store, None if folder else target)
        try:
            study_id = engine.run(question, store, workers=workers, seed=seed, ray=ray, progress=view, first=first)
        except KeyboardInterrupt as stop:
            raise type(stop)(f"stopped; every run that ended is stored, and `sweep run {name}` goes on") from None
        data = results.collect(store, study_id)
    found = {**_overview(data, 1.5), "report": None, "database": str(database)}
    try:
        return {**found, "report": str(pages.write_report(data, target))}
    except pages.PageError as error:  # what was found is shown all the same
        return {**found, "report_error": str(error)}


def _first(question: Any, database: str, older: str) -> list[tuple[dict, str]]:
    """(params, origin) of the trials that the study begins with, from study `older`; says what was taken."""
    from sweep import results, warmstart

    with _open(database) as store:
        row = store.find(older)
        label = _label(row, newest=False)
        mine = [s["id"] for s in store.studies() if (s["name"], s["hash"]) == (question.name, question.hash)]
        if row["id"] in mine:
            print(f"from {label}: that is this study itself, which goes on with its trials", file=sys.stderr)
            return []
        begun = [t for study_id in mine for t in store.trials(study_id) if t["origin"].startswith(warmstart.origin(label))]
        start = (warmstart.Start(label, already=len(begun)) if begun
                 else warmstart.plan(question, results.collect(store, row["id"]), label))  # fmt: skip
    print(warmstart.sentence(start), file=sys.stderr)
    return start.first


def _check_writable(folder: Path) -> None:
    """PageError where a report could not be written, said before the study runs."""
    from sweep.pages import PageError

    place = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".sweep.", dir=place):
            pass
    except OSError as error:
        raise PageError(f"{folder}: a report cannot be written there ({error.strerror}); give --report another") from None


def _announce_change(question: Any, store: Any, folder: Path | None) -> None:
    """Says where an edited file begins another study, and keeps the report of the study before in a folder of its own."""
    from sweep import study

    known = [row for row in store.studies() if row["name"] == question.name]
    if not known or known[0]["hash"] == question.hash:
        return
    before = _label(known[0], newest=False)
    what = "the study of that definition goes on" if any(row["hash"] == question.hash for row in known) else "a new study"
    changes = ", ".join(study.changes(known[0]["definition"], question.definition())[:2])
    print(f"the definition of {question.name!r} changed ({changes}): {what}; the earlier one stays in the database as "
          f"{before}", file=sys.stderr)
    kept = _report_folder(before)
    if folder is not None and (folder / "index.html").is_file():
        if kept.exists():
            shutil.copyfile(folder / "index.html", kept / "index.html")
        else:
            folder.rename(kept)


def ended(value: dict) -> str:
    """The last words of `sweep run`: what was found, where it is, how to go on."""
    name = value["study"]
    lines = [_counted(value), *_front(value), *_about_the_space(value), ""]
    if value["report"]:
        lines.append(f"report     {value['report']}")
    if value["recommended"] is not None:
        lines += [f"train it   sweep train {name}", f"export it  sweep export {name}"]
    elif value["front"]:
        trial = value["front"][-1]["trial"]
        lines += ["Nothing is verified: at least 12 fresh seeds, at least 80% of them solved. More time with --verify,",
                  f"or take a trial as it is: sweep export {name} --trial {trial}"]
    return "\n".join(lines)


def report(database: str, name: str, folder: str | None) -> dict:
    """The report written again; its page."""
    from sweep import pages

    data = _collect(database, name)
    target = Path(folder) if folder else _report_folder(data["study"]["label"])
    return {"report": str(pages.write_report(data, target))}


# -- ls, show, best -------------------------------------------------------------------------------------


def studies(database: str) -> list[dict]:
    """Each study, newest first: name, trials, runs, solved, state and the recommended trial."""
    from sweep import results

    found = []
    with _open(database) as store:
        for row in store.studies():
            data = results.collect(store, row["id"])
            best, runs = results.best(data), data["counts"]["runs"]
            pid = store.running(row["id"])
            found.append({"study": row["name"], "id": row["id"], "newest": row["newest"], "hash": row["hash"],
                          "trials": row["trials"], "runs": sum(runs.values()), "solved": runs["solved"],
                          "state": "idle" if pid is None else f"running (pid {pid})",
                          "opened": row["opened"], "recommended": _recommended(best)})
    return found


def _recommended(best: dict) -> dict | None:
    return next((entry for entry in best["front"] if entry["trial"] == best["recommended"]), None)


def studies_table(found: list[dict]) -> str:
    """The studies as a table; an older one of the same name has its hash beside it."""
    if not found:
        return "No studies yet; `sweep run cartpole --budget 60s` makes one."
    rows = []
    for row in found:
        best = row["recommended"]
        what = [None] * 3
        if best:
            what = [best["trial"], formats.whole(best["parameters"]), formats.seconds(best["seconds"]["median"])]
        solved = formats.percent(row["solved"] / row["runs"] if row["runs"] else None)
        rows.append([_label({**row, "name": row["study"]}, row["newest"]), row["trials"], row["runs"], solved, row["state"], *what])
    return terminal.table(["study", "trials", "runs", "solved", "state", "best trial", "parameters", "median"], rows)


def show(database: str, name: str, within: float) -> dict:
    """What a study asks, its counts and its front."""
    return _overview(_collect(database, name), within)


def _overview(data: dict, within: float) -> dict:
    from sweep import bounds, importance, results, unsolved

    counts = data["counts"]
    kept = ("trials", "runs", "training_seconds", "platform_seconds")
    return {**results.best(data, within=within), "study": data["study"].get("label", data["study"]["name"]),
            "runner_up": results.runner_up(data, None, within),
            "question": data["study"]["question"],
            "definition": data["study"]["definition"], "counts": {key: counts[key] for key in kept},
            "best_mean": unsolved.best_mean(data), "cut_off": _cut_off(data), "crashes": unsolved.crashes(data),
            "unsolved": unsolved.facts(data), "at_ends": bounds.at_ends(data),
            "importance": importance.of(data)}


def _cut_off(data: dict) -> int:
    """Runs that the end of the last search cut off."""
    return ((data["machines"][-1:] or [{}])[0].get("totals") or {}).get("cut_off", 0)


def overview(value: dict) -> str:
    """A study for a person: question, solve, counts, front."""
    solve, goal = value["definition"]["solve"], formats.goal(value["definition"])
    head = textwrap.fill(f"{value['study']}: {value['question']}" if value["question"] else value["study"], 80)
    rule = textwrap.fill(f"{value['env']} is solved by a {goal.what} of {formats.param(goal.target)} over "
                         f"{solve['episodes']} fresh episodes, policy {solve['policy']}", 80)
    return "\n".join([head, rule, _counted(value), *_front(value), *_about_the_space(value)])


def _front(value: dict) -> list[str]:
    """The front below a line left free; nothing where it is said already why there is none."""
    return ["", terminal.front(value)] if value["front"] or not _unsolved(value) else []


def _about_the_space(value: dict) -> list[str]:
    """How the space could be another: where the best trials sit on an end of it, and what does not matter; below a line left free."""
    from sweep import bounds, importance

    told = [bounds.sentence(found) for found in value.get("at_ends", [])] + [importance.sentence(value.get("importance"))]
    lines = [textwrap.fill(line, 80) for line in told if line]
    return ["", *lines] if lines else []


def _counted(value: dict) -> str:
    counts = value["counts"]
    runs = ", ".join(f"{n} {status}" for status, n in counts["runs"].items() if n)
    crashes = "".join(f"{c['runs']} crashed: {c['reason']}\n" for c in value["crashes"][:3])
    return (f"{counts['trials']} trials; runs: {runs or 'none'}\n{crashes}{_unsolved(value)}"
            f"{formats.duration(round(counts['training_seconds']))} of training, "
            f"{formats.duration(counts['platform_seconds'])} of everything else")


def _unsolved(value: dict) -> str:
    """Why a study without a solve has none, as far as its runs say; nothing where one solved."""
    from sweep import unsolved

    found, cut = value["unsolved"], value["cut_off"]
    if found is None:
        return ""
    if any(found["runs"].values()):
        return textwrap.fill(unsolved.sentence(found), 80) + "\n"
    were = "runs were" if cut != 1 else "run was"
    return f"{cut} {were} cut off by the end of the search; give it more --budget\n" if cut else ""


def best(database: str, name: str, max_parameters: int | None, within: float, at: float | None = None) -> dict:
    """The front and the recommended trial, among networks of at most `max_parameters`; had the study asked for `at`, where given."""
    from sweep import bounds, results, thresholds, unsolved

    data, reached = _collect(database, name), None
    if at is not None:
        with _open(database) as store:
            data, reached = thresholds.at(data, store.curves(data["study"]["id"]), at)
        reached |= thresholds.answers(data, max_parameters, within)
    found = {**results.best(data, max_parameters=max_parameters, within=within), "study": data["study"]["label"],
             "runner_up": results.runner_up(data, max_parameters, within),
             "unsolved": unsolved.facts(data), "at_ends": bounds.at_ends(data), **({"at": {**reached, "within": within}} if reached else {})}
    if max_parameters is None or found["front"]:
        return found
    solved = [t["parameters"] for t in data["trials"]
              if any(r["status"] == "solved" for r in (*t["runs"], *t["verification"]))]
    return {**found, "max_parameters": max_parameters, "smallest_solved": min(solved, default=None)}


def recommendation(value: dict) -> str:
    """The recommended trial with its params, below the front."""
    from sweep import thresholds, unsolved

    found, reached = _recommended(value), value.get("at")
    most, least = value.get("max_parameters"), value.get("smallest_solved")
    if most is not None and least is not None and most < least:
        return (f"No trial of at most {formats.whole(most)} parameters has {'reached that' if reached else 'solved'}; "
                f"the smallest that did has {formats.whole(least)}.")
    if found is None and not value["front"]:
        if reached and reached["threshold"] != reached["target"]:
            best = value["unsolved"]["reached"] if value["unsolved"] else None
            came = "no run ended enough episodes to judge" if best is None else f"the best reached {best:,.4g}"
            return f"No run reached a {reached['what']} of {reached['threshold']:,.10g}; {came}."
        return textwrap.fill(unsolved.sentence(value["unsolved"]), 80) or "No trial has solved yet."
    shown = terminal.front(value)
    if reached:
        told = thresholds.sentences(reached, {basis: reached[basis] for basis in ("verified", "search")}, reached["within"])
        shown = "\n".join([shown, "", *(textwrap.fill(line, 80) for line in told)])
    shown = "\n".join([shown, *_about_the_space(value)])
    if found and value.get("runner_up"):
        shown += f"\n{textwrap.fill(terminal.runner_up(found['trial'], value['runner_up']), 80)}"
    if found is None:
        return shown + "\nNothing is recommended: no trial of the front is verified."
    params = terminal.table(["param", "value"], [(key, formats.param(v)) for key, v in found["params"].items()])
    name = value["study"]
    size = formats.whole(found["parameters"])
    return (f"{shown}\n\ntrial {found['trial']}, {size} parameters\n{params}\n\n"
            f"train it   sweep train {name} --trial {found['trial']}\n"
            f"export it  sweep export {name} --trial {found['trial']}")


# -- export, train --------------------------------------------------------------------------------------


def export_trial(database: str, name: str, trial: int | None, file: str | None, force: bool) -> dict:
    """A trial in a TOML file; the text itself where `file` is `-`."""
    from sweep import export

    data = _collect(database, name)
    number = export.find(data, trial)["number"]
    if file == "-":
        return {"trial": number, "file": None, "text": export.text(data, number)}
    target = Path(file or f"{data['study']['label']}-{number}.toml")
    content = export.text(data, number, target.parent)
    path = export.write(target, content.encode(), force)
    return {"trial": number, "file": str(path), "text": content}


def exported(value: dict) -> str:
    """Where the file is and what takes it, or the text itself."""
    if value["file"] is None:
        return value["text"].rstrip("\n")
    return f"{value['file']}\ntrain it   sweep train {value['file']}"


def train(source: str, database: str, trial: int | None, seed: int, max_seconds: str, file: str | None,
          force: bool) -> dict:
    """One run in the foreground, and its weights in a file."""
    from sweep import study, training

    limit = study.parse_duration(max_seconds)
    if limit <= 0:
        raise study.StudyError(f"--max-seconds is {max_seconds}; legal is a time above zero, as 90s or 10m")
    todo = training.load(source, trial, database)
    path = Path(file or f"{Path(source).stem}-seed{seed}.safetensors")
    return training.train(todo, seed, limit, path, force)


def trained(value: dict) -> str:
    """The curve, then how the run ended."""
    from sweep import training

    return f"{terminal.curve(value['curve'], what=value['solved_on'])}\n{training.summary(value)}"


# -- rm -------------------------------------------------------------------------------------------------


def remove(database: str, name: str, confirm: Callable[..., Any] | None) -> str:
    """A study gone from the database, after `confirm` (a question to a person; it aborts on no)."""
    from sweep.store import Store, StoreError

    with contextlib.closing(Store(database, create=False)) as store:
        row = store.find(name)
        if confirm is not None:
            if not sys.stdin.isatty():
                raise StoreError(f"removing {name!r} needs a yes: run `sweep rm {name} --yes`")
            runs = sum(store.counts(row["id"])["runs"].values())
            confirm(f"Remove {name!r} with {runs} runs from {database}?", abort=True)
        return f"{name}: {store.remove(row['id'])} runs removed"


# -- bench ----------------------------------------------------------------------------------------------


def bench_trainer(envs: list[str], hidden: list[int] | None, layers: list[int], cells: list[str],
                  epochs: list[int] | None, horizons: list[int], params: tuple[str, ...], repeats: int | None, seconds: float,
                  against: str | None) -> dict:
    """The trainer's speed, case by case; progress to stderr."""
    from sweep import bench

    given = dict(bench.param(word) for word in params)
    todo = bench.cases([env for env in envs if env], hidden or (), layers, cells, epochs or (), horizons, given)
    other = None if against is None else bench.against(against)
    with terminal.progress() as progress:
        return bench.trainer(todo, repeats or (7 if other else 3), seconds, other, progress)


def bench_envs(names: tuple[str, ...], seconds: float, repeats: int, python: str | None) -> dict:
    """The environments' speed, beside their references; progress to stderr."""
    from sweep import bench_envs

    with terminal.progress() as progress:
        return bench_envs.measure(names, seconds, repeats, python, progress)


def bench_search(tables: tuple[Path, ...], methods: tuple[str, ...], replays: int, workers: int, jobs: int) -> dict:
    """Searches replayed on recorded runs; progress to stderr."""
    from sweep import bench_search

    with terminal.progress() as progress:
        return bench_search.measure(tables, methods or bench_search.DEFAULT, replays, workers, jobs, progress)
