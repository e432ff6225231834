"""`sweep envs`: the environments as people look them up: what is seen, how one acts, when it counts as solved, whose rules."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sweep import formats, terminal, tomlfiles

#: Libraries whose rules headers follow, as a list names them in one word.
REFERENCES = ("gymnasium", "gymnax", "MinAtar", "PufferLib", "bsuite", "POPGym", "Thrust", "Jumanji")
#: Seconds after which it is said that headers are being compiled.
PATIENCE = 0.5


def environments(say: Callable[[str], None] = lambda line: None) -> list[dict[str, Any]]:
    """All that can be found by name, each as `environment` gives it but for its inputs.

    What is not compiled yet is, some at a time. One that cannot be used has its name and `error`, one line.
    """
    from trainer_native import environments

    names, start, asked = environments.names(), time.monotonic(), criteria()

    def look(name: str) -> dict[str, Any]:
        try:
            found = facts(environments.find(name), asked.get(name))
        except environments.HeaderError as error:
            return {"env": name, "error": str(error)}
        return {key: value for key, value in found.items() if key != "inputs"}

    found = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for row in pool.map(look, names):
            found.append(row)
            if time.monotonic() - start > PATIENCE:
                say(f"compiling environments, once for this machine: {len(found)} of {len(names)}")
    return found


def environment(name: str) -> dict[str, Any]:
    """One of them, by name or path, with its inputs. Raises HeaderError."""
    from trainer_native import environments

    env = environments.find(name)
    return facts(env, criteria().get(env.name))


def facts(env: Any, criterion: dict | None) -> dict[str, Any]:
    """What there is to know of an Environment, as plain data."""
    what, _, rules = env.about.partition(" Rules: ")
    shown = ("default", "low", "high", "unit", "what")
    flags = int(env.inputs["is_flag"].sum())
    return {
        "env": env.name, "what": what, "rules": rules or None, "reference": reference(rules), "header": str(env.source),
        "observation": {"size": env.observation_size, "kind": "image" if env.image else "bytes" if env.observation_dtype == "u1" else "floats",
                        "dtype": str(env.observation_dtype), "image": env.image, "flags": flags},
        "actions": {"kind": "continuous" if not env.choices else "several" if len(env.choices) > 1 else "discrete",
                    "choices": env.choices or None, "bounds": None if env.choices else env.action_bounds},
        "longest_episode": env.longest_episode, "needs_memory": env.needs_memory, "metric": env.has_metric, "picture": env.picture,
        "criterion": criterion,
        "params": {name: {key: getattr(p, key) for key in shown} for name, p in env.params.items()},
        "inputs": [{"input": i, "low": row["low"].item(), "high": row["high"].item(), "flag": bool(row["is_flag"]),
                    "open": bool(row["is_open"])} for i, row in enumerate(env.inputs)],
    }  # fmt: skip


def reference(rules: str) -> str | None:
    """The library that a header's rules name first, else whom they name first."""
    found = {name: re.search(rf"(?<![-\w]){name}(?![-\w])", rules) for name in REFERENCES}
    places = {place.start(): name for name, place in found.items() if place}
    if places:
        return places[min(places)]
    words = re.split(r"[,;(:]|\.(?=\s|$)", rules)[0].split()
    while len(words) > 1 and len(" ".join(words)) > 24:
        words.pop()
    return " ".join(words) or None


def criteria() -> dict[str, dict[str, Any]]:
    """Environment -> {study, mean_return or metric, episodes, question}, of the study of the same name."""
    found = {}
    for name in tomlfiles.names():
        try:
            content, question = tomlfiles.read(tomlfiles.find("studies", name))
        except tomlfiles.StudyError:
            continue  # `sweep run` says what is wrong with it
        solve = content.get("solve")
        if content.get("env") == name and isinstance(solve, dict):
            found[name] = {"study": name, **{key: solve.get(key) for key in ("mean_return", "metric")},
                           "episodes": solve.get("episodes", 100), "question": question}  # fmt: skip
    return found


def say_whose(name: str) -> None:
    """One line to stderr where `name` is played by the user's own header and not by the one that ships; nothing for a path."""
    from trainer_native import environments

    if own := environments.replacing(name):
        print(f"{name}: taken from {tomlfiles.shown(own)}, not the one that ships", file=sys.stderr)


# -- shown to a person --------------------------------------------------------------------------------------------


def sees(env: dict) -> str:
    """`4 floats`, `10×10×4 image`."""
    seen = env["observation"]
    kind = seen["kind"].removesuffix("s") if seen["size"] == 1 else seen["kind"]
    return f"{'×'.join(map(str, seen['image']))} image" if seen["image"] else f"{seen['size']} {kind}"


def acts(env: dict) -> str:
    """`3` choices, `3+2` of two at once, `1 real`."""
    actions = env["actions"]
    return "+".join(map(str, actions["choices"])) if actions["choices"] else f"{len(actions['bounds'])} real"


def solved_at(env: dict) -> str | None:
    """`475`, `metric 0.95`."""
    asked = env["criterion"]
    if asked is None:
        return None
    return formats.param(asked["mean_return"]).replace("-", "−") if asked["mean_return"] is not None else f"metric {asked['metric']}"


def _solved(env: dict) -> str:
    text = solved_at(env) or formats.ABSENT
    return formats.percent(env["criterion"]["metric"]) if text.startswith("metric") else text


def table(found: list[dict]) -> str:
    """One line for each environment, then one for each that cannot be used; `sweep envs NAME` shows all of one.

    "(yours)" stands at an own header that takes the place of one that ships."""
    from trainer_native import environments

    rows = [[env["env"] + (" (yours)" if environments.replacing(env["env"]) else ""), sees(env), acts(env), "yes" if env["needs_memory"] else "", _solved(env), env["reference"] or ""]
            for env in found if "error" not in env]  # fmt: skip
    lines = []
    if rows:
        head = ["environment", "observation", "actions", "memory", "solved at", "rules of"]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()[:80] for row in [head, *rows]]
    if any(row[4].endswith("%") for row in rows):
        lines.append("solved at: a mean return, or so many % of the game's own metric")
    faults = [f"error: {env['error']}" for env in found if "error" in env]
    return "\n".join([*lines, *([""] if lines and faults else []), *faults])


def page(env: dict) -> str:
    """All of one environment."""
    return "\n".join(_page(env))


def _page(env: dict) -> Iterator[str]:
    import textwrap

    yield f"{env['env']}  {tomlfiles.shown(Path(env['header']))}"
    for paragraph in (env["what"], env["rules"] and f"Rules: {env['rules']}"):
        if paragraph:
            yield from textwrap.wrap(paragraph, 80)
    seen, asked = env["observation"], env["criterion"]
    kinds = [f"{count} {word}{'s' * (count != 1)}" for count, word in ((seen["size"] - seen["flags"], "quantity"), (seen["flags"], "flag")) if count]
    yield ""
    yield f"sees      {sees(env)}: {', '.join(kinds)}".replace("quantitys", "quantities")
    yield f"acts      {actions_in_words(env['actions'])}"
    yield f"episode   {formats.whole(env['longest_episode'])} env steps at most"
    yield f"memory    {'needed: what is seen does not say all' if env['needs_memory'] else 'not needed'}"
    if asked:
        measure = "mean return" if asked["mean_return"] is not None else "mean"
        yield f"solved    at a {measure} of {(solved_at(env) or '').removeprefix('metric ')}{'' if measure != 'mean' else ' of its metric'} " \
              f"over {asked['episodes']} episodes (study {asked['study']})"  # fmt: skip
    if env["metric"]:
        yield "metric    its own, 0 to 1"
    if env["picture"]:
        yield f"picture   {formats.number(env['picture'][0])} × {formats.number(env['picture'][1])}"
    if env["params"]:
        rows = [[name, formats.param(p["default"]), f"{formats.param(p['low'])} to {formats.param(p['high'])}", p["what"]] for name, p in env["params"].items()]
        yield ""
        yield from _columns(["param", "default", "legal", ""], rows)
    yield ""
    yield from _columns(["input", "kind", "bounds"], [input_in_words(group) for group in groups(env["inputs"])])


def actions_in_words(actions: dict) -> str:
    """`one of 3`, `2 at once: one of 3, one of 2`, `1 continuous: −2.00 to 2.00`."""
    if actions["choices"]:
        several = actions["choices"]
        return f"one of {several[0]}" if len(several) == 1 else f"{len(several)} at once: one of " + ", one of ".join(map(str, several))
    bounds = [f"{formats.number(low)} to {formats.number(high)}" for low, high in actions["bounds"]]
    return f"{len(bounds)} continuous: " + ", ".join(bounds)


def groups(inputs: list[dict]) -> list[list[dict]]:
    """Neighbours that state the same together."""
    found: list[list[dict]] = []
    for i in inputs:
        stated = tuple(i[key] for key in ("flag", "open", "low", "high"))
        if found and found[-1][-1]["input"] == i["input"] - 1 and stated == tuple(found[-1][-1][key] for key in ("flag", "open", "low", "high")):
            found[-1].append(i)
        else:
            found.append([i])
    return found


def span(group: list[dict]) -> str:
    """`3`, or `10–117`."""
    first, last = group[0]["input"], group[-1]["input"]
    return f"{first}" if first == last else f"{first}–{last}"


def input_in_words(group: list[dict]) -> list[str]:
    """Which inputs, their kind and their bounds."""
    first = group[0]
    kind = "flag" if first["flag"] else "quantity, typically" if first["open"] else "quantity"
    return [span(group), kind, "0 or 1" if first["flag"] else f"{formats.number(first['low'])} to {formats.number(first['high'])}"]


def _columns(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    for row in [head, *rows]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def listing() -> list[dict[str, Any]]:
    """`environments`, with progress to stderr."""
    with terminal.progress() as progress:
        return environments(progress)
