"""`sweep check`: what a header does wrong, each fault in one line, and what a policy would see."""

from __future__ import annotations

import math
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweep import formats, library, terminal, tomlfiles
from trainer_native import environments, fuzz, headers

#: Most rows of the table of inputs; what is alike and side by side shares a row.
MOST_ROWS = 16
_FUNCTIONS = ("input", "reset", "step", "observe", "metric", "draw")


def check(env: str, env_steps: int, seed: int) -> dict[str, Any]:
    """Plays an environment at random: its faults and warnings, {where, what, do} each, and what a policy would see."""
    library.say_whose(env)
    with terminal.progress() as progress:
        played = fuzz.play(env, env_steps, seed, progress)
    path = played["path"]
    faults, warnings = _faults(played["findings"], played["about"], path)
    inputs, with_params = ([_input(f) for f in played["findings"] if "input" in f and f["part"] == part] for part in ("play", "params"))
    if not faults:  # what a study would say of it
        try:
            environments.find(path)
        except environments.HeaderError as error:
            faults.append({"where": _shown(path), "what": str(error).removeprefix(f"{path}: "), "do": None})
    if not played["sanitised"] and played["about"]:
        warnings.append({"where": _shown(path), "what": "played without sanitizers, which this compiler has not: reads beyond "
                         "an array's end and undefined behaviour were not looked for",
                         "do": "install them (part of g++ on Debian; dnf install libasan libubsan), or try CXX=clang++"})  # fmt: skip
    warnings += _ranges(inputs, path)
    wide = {i["input"] for i in inputs if i["outside"]}
    warnings += _ranges([i for i in with_params if i["input"] not in wide], path, " with other params")
    episodes = next((finding for finding in played["findings"] if "episodes" in finding), None)
    return {
        "env": path.stem, "header": str(path), "env_steps": played["env_steps"], "seed": seed, "sanitizers": played["sanitised"],
        "faults": faults, "warnings": warnings, "environment": _facts(played["about"]), "inputs": inputs,
        "episodes": _episodes(episodes), "env_steps_per_cpu_second": played["speed"],
    }  # fmt: skip


def _facts(about: dict | None) -> dict | None:
    return about and {key: value for key, value in about.items() if key not in ("part", "abi")}


def _input(finding: dict) -> dict:
    found = {key: finding[key] for key in ("input", "flag", "open", "low", "high", "lowest", "highest", "mean", "deviation", "constant")}
    return {**found, "outside": finding["outside"] / max(1, finding["count"]), "farthest": finding["farthest"]}


def _episodes(found: dict | None) -> dict | None:
    if found is None:
        return None
    ended, steps = max(1, found["episodes"]), max(1, found["env_steps"])
    return {
        **{key: found[key] for key in ("episodes", "env_steps", "shortest", "median_length", "longest", "mean_return",
                                       "lowest_return", "highest_return", "mean_metric")},
        "rewarded": found["rewarded"] / steps, "terminated": found["terminated"] / ended, "truncated": found["truncated"] / ended,
    }  # fmt: skip


# -- faults in words -----------------------------------------------------------------------------------------------


def _shown(path: Path, line: int | None = None) -> str:
    return tomlfiles.shown(path) + (f":{line}" if line else "")


def _place(finding: dict) -> str:
    params = ", ".join(f"{name} {formats.param(value)}" for name, value in finding.get("params", {}).items())
    when = _after(finding.get("step"))
    return when + (" of an episode" if finding.get("step") else "") + (f", with {params}" if params else "")


def _after(steps: int | None) -> str:
    return "" if steps is None else " at the reset" if steps == 0 else f" after {steps:,} env step{'s' * (steps != 1)}"


def _not_finite(value: float) -> str:
    return "not a number" if math.isnan(value) else "infinite"


def _faults(findings: list[dict], about: dict | None, path: Path) -> tuple[list[dict], list[dict]]:
    """(faults, warnings) in the order they were met; each thing once, inputs that share one together."""
    lines = {name: headers.line_of(path, name) for name in _FUNCTIONS}
    # A write beyond an end is seen twice: by the guards, which know what was written, and by the sanitizer: where.
    beyond = sorted((f for f in findings if f.get("fault") == "address"), key=lambda f: f["access"] == "writes")
    wrote = {f["who"]: f["line"] for f in beyond}
    guarded = {f["who"] for f in findings if f.get("fault") == "outside"}
    told = {f.get("fault") for f in findings}
    origins = {f["origin"]: f["line"] for f in findings if "origin" in f}
    stacks = {f["part"]: f["stack"] for f in findings if "stack" in f}
    unset = [f["unset"] for f in findings if "unset" in f]
    faults, warnings, known = [], [], {}
    for finding in findings:
        kind = finding.get("fault")
        if kind is None or _follows(finding, told, guarded):
            continue
        if kind == "outside":
            finding["line"] = wrote.get(finding["who"])
        if kind == "hang":
            finding["line"] = stacks.get(finding["part"])
        if "value" in finding and kind != "flag":
            finding["line"] = origins.get("nan" if math.isnan(finding["value"]) else "infinite")
        if kind == "dead" and finding["kind"] == "FPE" and any(f.get("fault") == "undefined" and f["line"] == finding["line"] for f in findings):
            continue  # a division by zero, told already
        if kind == "observation" and _made_in_state(finding, findings):
            continue
        alike = (kind, *(finding.get(key) for key in ("who", "what", "message", "line")))
        if alike in known:
            if finding.get("index") not in (None, known[alike].get("index")):
                known[alike].setdefault("others", set()).add(finding["index"])
            continue
        known[alike] = finding
    for finding in known.values():
        where, what, do = _words(finding, about, path, unset)
        file, line = where if isinstance(where, tuple) else (path, lines.get(where))
        entry = {"where": _shown(Path(file), line), "what": what, "do": do}
        if finding["part"] == "after":
            entry["what"] = f"stepped on after an episode's end: {entry['what']}"
        (warnings if finding["part"] == "after" or finding["fault"] == "both" else faults).append(entry)
    seen = any(finding.get("fault") == "fill" for finding in findings)
    if unset and not seen:
        warnings.append({"where": _shown(path, lines["reset"]), "what": f"reset does not set {_fields(unset)}; nothing that is seen "
                         "depended on it", "do": "set it all the same, so that an episode forgets the one before"})  # fmt: skip
    return faults, warnings


def _follows(finding: dict, told: set, guarded: set) -> bool:
    """Whether a fault is another one, seen again."""
    kind = finding["fault"]
    if kind == "address":
        return finding["who"] in guarded
    if kind in ("order", "fill", "build"):
        return bool(guarded) or bool(told & {"again", "unwritten", "reads"}) or (kind == "fill" and "order" in told)
    return False


def _made_in_state(finding: dict, findings: list[dict]) -> bool:
    """Whether what is not finite stood in State at that same env step: one fault, not two."""
    return any(f.get("fault") == "state" and all(f[key] == finding[key] for key in ("part", "step", "params"))
               and _not_finite(f["value"]) == _not_finite(finding["value"]) for f in findings)  # fmt: skip


def _fields(names: list[str]) -> str:
    return ", ".join(f"State.{name}" for name in names)


def _words(finding: dict, about: dict | None, path: Path, unset: list[str]) -> tuple[Any, str, str | None]:
    """(where: a function or (file, line), what is wrong, what to do)."""
    kind, place, size = finding["fault"], _place(finding), about["observation_size"] if about else 0
    index, others = finding.get("index"), len(finding.get("others", ()))
    several = f"observation[{index}]" + (f" and {others} more" if others else "")
    if kind == "outside":
        return _outside(finding, size)
    if kind == "unwritten":
        return "observe", f"observe leaves {several} unwritten{place}", f"write all {size} numbers, 0 where there is nothing"
    if kind == "reads":
        return "observe", f"{several} depends on what stood there before{place}", "assign each number, add to none"
    if kind == "observation":
        wrong = f"{several} is {_not_finite(finding['value'])}{place}"
        return finding["line"] or "observe", wrong, "legal are finite numbers"
    if kind == "flag":
        return "observe", f"{several} is {finding['value']:g}{place}, and input({index}) says it is a flag", \
            "legal are 0 and 1; else mark it sweep::quantity(low, high)"  # fmt: skip
    if kind == "reward":
        return finding["line"] or "step", f"the reward is {_not_finite(finding['value'])}{place}", "legal are finite numbers"
    if kind == "state":
        element = f"[{index}]" if index >= 0 else ""
        wrong = f"{finding['who']} makes State.{finding['what']}{element} {_not_finite(finding['value'])}{place}"
        return finding["line"] or finding["who"], wrong, "legal are finite numbers"
    if kind == "metric":
        return "metric", f"metric gives {finding['value']:g}{place}", "legal are numbers from 0 to 1"
    if kind == "mark":
        return "draw", f"draw makes a mark that is not finite{place}", "legal are finite numbers"
    if kind == "both":
        return "step", f"step says terminated and truncated at once{place}; the trainer takes it as terminated", \
            "say truncated only where the rules would go on"  # fmt: skip
    if kind == "endless":
        return "step", f"an episode goes on after longest_episode, {finding['longest']:,} env steps", \
            "return terminated or truncated by then, or raise longest_episode"  # fmt: skip
    if kind in ("again", "order", "fill", "build"):
        return _not_repeated(finding, path, unset)
    if kind == "undefined":
        return finding["line"] or (path, None), f"undefined behaviour: {finding['message']}", _remedy(finding["message"])
    if kind == "address":
        wrong = f"{finding['who'] or 'it'} {finding['access']} {finding['bytes']} bytes beyond the end of an array or of State"
        return finding["line"] or finding["who"] or (path, None), f"{wrong} ({finding['kind']})", "keep each index within its array"
    if kind == "dead":
        name = {"SEGV": "it reads or writes memory that is not there", "FPE": "a whole number is divided by zero",
                "stack-overflow": "it calls itself without end"}.get(finding["kind"], f"it crashed ({finding['kind']})")  # fmt: skip
        return finding["line"] or finding["who"] or (path, None), name, "it would end a training run too"
    if kind == "hang":
        wrong = f"{finding['who']} did not return within {finding['seconds']} CPU seconds"
        return finding["line"] or finding["who"], wrong, "let each loop end"
    ended = f"signal {-finding['status']}" if finding["status"] < 0 else f"exit status {finding['status']}"
    return (path, None), f"it ended its process ({ended})", "it would end a training run too"


def _outside(finding: dict, size: int) -> tuple[Any, str, str]:
    who, what, low, high = (finding[key] for key in ("who", "what", "first", "last"))
    where, place = finding["line"] or who, _place(finding)
    if what == "observation":
        at = f"observation[{low}]" + (f" to [{high}]" if high != low else "")
        return where, f"{who} writes {at}{place}; observation_size is {size}", f"legal are observation[0] to [{size - 1}]"
    side = "before" if low < 0 else "behind"
    return where, f"{who} writes {side} {what}{place}: an index is beyond an array's end", "keep each index within its array"


def _remedy(message: str) -> str:
    if found := re.search(r"index (-?\d+) out of bounds for type '.*?\[(\d+)\]", message):
        return f"legal are indexes 0 to {int(found[2]) - 1}"
    if "outside the range of representable values" in message:
        return "clamp it before the cast"
    if "signed integer overflow" in message:
        return "keep it within 32 bits, or use sweep::int64"
    if "not a valid value for type 'bool'" in message or "which is not a valid value" in message:
        return "set it before it is read, in reset"
    return "another compiler, or another day, may give another result"


def _not_repeated(finding: dict, path: Path, unset: list[str]) -> tuple[Any, str, str]:
    kind, what = finding["fault"], finding.get("what")
    when = _after(finding.get("step"))
    outer = _outer_variables(path)
    keep = "keep all that changes in State, and draw from the Rng alone"
    where = outer[0][0] if outer else None
    named = f" (`{outer[0][1]}` outlives a call)" if outer else ""
    if kind == "again":
        return (path, where), f"not a function of its seed: played again, {what} is another{when}{named}", keep
    if kind == "order":
        return (path, where), f"copies influence each other: {what} is another{when} when they are played in another order or at once{named}", keep
    if kind == "fill":
        return "reset", f"reset does not set {_fields(unset) or 'all of State'}, and {what} depends on it{when}", "set every field"
    return (path, None), "another build of the same code plays otherwise", "a local variable is read before it is written: give it a value"


def _outer_variables(path: Path) -> list[tuple[int, str]]:
    """(line, text) of what looks like a variable that outlives a call."""
    code, found = headers.without_comments(headers.read(path)), []
    for number, line in enumerate(code.splitlines(), 1):
        if re.search(r"\b(static|thread_local)\b", line) and not re.search(r"\b(const|constexpr|static_assert|SWEEP_FN)\b", line):
            found.append((number, line.strip()))
        elif re.match(r"(inline\s+)?[A-Za-z_][\w:]*\s+[A-Za-z_]\w*(\[.*\])?\s*(=[^()]*|\{.*\})?;", line) and not re.match(
                r"(using|return|typedef|namespace|struct|else|extern)\b", line):  # fmt: skip
            found.append((number, line.strip()))  # at the left margin: of the namespace
    return found


def _ranges(inputs: list[dict], path: Path, when: str = "") -> Iterator[dict]:
    """A warning for each input that leaves its stated bounds, those that are alike together."""
    line = headers.line_of(path, "input")
    for group in library.groups([i for i in inputs if i["outside"] and not i["flag"]]):
        far = max(group, key=lambda i: i["farthest"])
        name, low, high = library.span(group), formats.number(far["low"]), formats.number(far["high"])
        reached = far["lowest"] if far["low"] - far["lowest"] >= far["highest"] - far["high"] else far["highest"]
        yield {"where": _shown(path, line), "what": f"input {name} leaves its bounds {low} to {high}{when}: {formats.number(reached)} at the "
               f"farthest, in {formats.percent(max(i['outside'] for i in group))} of what is seen",
               "do": "widen them, or say sweep::typical(low, high) where there is no limit"}  # fmt: skip


# -- shown to a person --------------------------------------------------------------------------------------------


def text(found: dict) -> str:
    """The whole of it at 80 columns: the faults first."""
    width = max(60, shutil.get_terminal_size().columns - 1) if sys.stdout.isatty() else None
    lines = []
    for word in ("fault", "warning"):
        for entry in found[f"{word}s"]:
            line = f"{word}: {entry['where']}: {entry['what']}" + (f": {entry['do']}" if entry["do"] else "")
            lines += textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) if width else [line]
    count = len(found["faults"])
    verdict = "no fault found" if not count else f"{count} fault{'s' * (count != 1)}"
    head = f"{found['env']}: {verdict} in {found['env_steps']:,} env steps of random actions"
    return "\n".join([*lines, *([""] if lines else []), head, *_seen(found)])


def _seen(found: dict) -> Iterator[str]:
    inputs, episodes = found["inputs"], found["episodes"]
    if inputs:
        image = found["environment"]["image"]
        if image[0]:
            rows = [_row(inputs[channel :: image[2]], f"channel {channel}") for channel in range(image[2])]
        else:
            rows = [_row(group, library.span(group)) for group in library.groups(inputs)]
        shown = rows if len(rows) <= MOST_ROWS else rows[: MOST_ROWS - 1]
        yield ""
        yield terminal.table(["input", "stated", "seen", "mean", "deviation", "constant"], shown)
        if len(rows) > len(shown):
            yield f"and {len(rows) - len(shown)} more rows: see --json"
    if not episodes:
        return
    yield ""
    facts = found["environment"]
    lengths = "none ended"
    if episodes["episodes"]:
        lengths = (f"{formats.whole(episodes['shortest'])} / {formats.whole(episodes['median_length'])} / "
                   f"{formats.whole(episodes['longest'])} env steps (shortest, median, longest)")  # fmt: skip
    yield f"episodes   {formats.whole(episodes['episodes'])}: {lengths}; at most {formats.whole(facts['longest_episode'])}"
    if not episodes["episodes"]:
        return
    yield f"ended      {formats.percent(episodes['terminated'])} terminated, {formats.percent(episodes['truncated'])} truncated"
    yield (f"return     {formats.number(episodes['mean_return'])} on average, {formats.number(episodes['lowest_return'])} to "
           f"{formats.number(episodes['highest_return'])}; a reward in {formats.percent(episodes['rewarded'])} of env steps")  # fmt: skip
    if episodes["mean_metric"] is not None and episodes["mean_metric"] == episodes["mean_metric"]:
        yield f"metric     {formats.number(episodes['mean_metric'])} on average"
    if found["env_steps_per_cpu_second"]:
        yield f"speed      {formats.short(found['env_steps_per_cpu_second'])} env steps per CPU second, each observed, 64 copies"


def _row(group: list[dict], name: str) -> list[str | None]:
    seen = [i for i in group if i["mean"] == i["mean"]]
    mark = "~" if group[0]["open"] else ""
    stated = "flag" if group[0]["flag"] else f"{mark}{formats.number(group[0]['low'])} to {formats.number(group[0]['high'])}"
    if not seen:
        return [name, stated, None, None, None, None]
    low, high = (_snapped(x, group[0]) for x in (min(i["lowest"] for i in seen), max(i["highest"] for i in seen)))
    mean, spread = (sum(i[key] for i in seen) / len(seen) for key in ("mean", "deviation"))
    constant = sum(i["constant"] for i in seen)
    word = None if not constant else "yes" if len(seen) == 1 else f"{constant} of {len(seen)}"
    return [name, stated, f"{formats.number(low)} to {formats.number(high)}", formats.number(mean), formats.number(spread), word]


def _snapped(x: float, stated: dict) -> float:
    """A bound where x is that but for rounding."""
    near = 1e-5 * max(1e-6, stated["high"] - stated["low"])
    return next((bound for bound in (stated["low"], stated["high"]) if abs(x - bound) <= near), x)
