"""Writes docs/environments.md: every environment that ships, from its header, its study and what was measured of it.

`python scripts/environments_page.py` reads envs/ and studies/, docs/golden.json (SWEEP_GOLDEN_TABLE=docs/golden.json pytest
tests/golden) and docs/solved.json (python scripts/solve_table.py --json docs/solved.json); what is not there is left out. It also
draws docs/pictures/NAME.svg of the games that have a picture. With `--check` it writes nothing and fails where the page is stale.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

from sweep import formats, library
from trainer_native import environments

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "environments.md"
#: Env steps of random play after which a game is drawn, and pixels of a picture's longer side, and its height among the others.
DRAWN_AFTER, PIXELS, GALLERY = 40, 200, 110
MOST_ROWS = 12


def shipped() -> list[str]:
    """The environments that ship; a user's own in the working directory are none."""
    return sorted(path.stem for path in environments.folders()[-1].glob("*.h"))


def page() -> str:
    """The whole page."""
    found = [library.environment(str(environments.folders()[-1] / f"{name}.h")) for name in shipped()]
    golden, solved = golden_rows(), solved_rows()
    lines = ["# Environments", "",
             "Made by `python scripts/environments_page.py` from the headers in `envs/` and the studies of the same names; change those, and run it.",
             "`sweep envs` prints the same, `sweep envs NAME` all of one.", "",
             *rows(["environment", "what is seen", "actions", "memory", "solved at", "rules of"],
                   [[f"[{env['env']}](#{env['env']})", library.sees(env), library.acts(env), "needed" if env["needs_memory"] else "",
                     library.solved_at(env) or "", env["reference"]] for env in found])]  # fmt: skip
    if gallery := [env["env"] for env in found if _picture(env["env"]).is_file()]:
        lines += ["", *(f'[<img src="pictures/{name}.svg" alt="{name}" title="{name}" height="{GALLERY}">](#{name})' for name in gallery)]
    if golden:
        lines += ["", "Each is the same game as its reference: single transitions from the reference's own states, compared number by number",
                  "(`pytest tests/golden`).", "",
                  *rows(["environment", "reference", "transitions", "largest error"],
                        [[name, reference, f"{count:,}", f"{worst:.1e}" if worst else "exact"] for name, reference, count, worst in golden])]  # fmt: skip
    if solved:
        lines += ["", "Trial 0 of each study, with seeds that nobody tuned on, within its run budget (`python scripts/solve_table.py`); medians of all runs,",
                  "unsolved ones the longest. Wall time on one core of an AMD EPYC (Zen 3) on 1 December 2026, often with other work beside it: CPU",
                  "seconds say what it would be alone. A study that is not here is open: its first lines say how far its trial 0 came.", "",
                  *rows(["environment", "network size", "solved", "time to solve, s", "CPU s", "env steps", "env steps per CPU second"], solved)]  # fmt: skip
    for env in found:
        lines += ["", f"## {env['env']}", "", *section(env)]
    return "\n".join(lines) + "\n"


def rows(head: list[str], body: list[list[Any]]) -> list[str]:
    """A table in Markdown."""
    cells = [head, ["---"] * len(head), *body]
    return ["| " + " | ".join(str(cell if cell is not None else "").replace("|", "\\|") for cell in row) + " |" for row in cells]


def section(env: dict[str, Any]) -> list[str]:
    """All of one environment."""
    asked = env["criterion"]
    picture = [f'<img src="pictures/{env["env"]}.svg" alt="a moment of {env["env"]}" width="{PIXELS}">', ""]
    lines = [*(picture if _picture(env["env"]).is_file() else []), env["what"]]
    lines += ["", f"Rules: {env['rules']}"] if env["rules"] else []
    lines += ["", f"- actions: {library.actions_in_words(env['actions'])}",
              f"- an episode: at most {env['longest_episode']:,} env steps",
              f"- memory: {'needed: what is seen does not say all' if env['needs_memory'] else 'not needed'}"]  # fmt: skip
    if asked:
        lines += [f"- solved at: {library.solved_at(env)}, the mean over {asked['episodes']} episodes. {asked['question']}"]
    if env["params"]:
        lines += ["", *rows(["param", "default", "legal", "what"],
                            [[name, formats.param(p["default"]), f"{formats.param(p['low'])} to {formats.param(p['high'])}", p["what"]]
                             for name, p in env["params"].items()])]  # fmt: skip
    groups = [library.input_in_words(group) for group in library.groups(env["inputs"])]
    more = [["…", f"{len(groups) - MOST_ROWS} more", ""]] if len(groups) > MOST_ROWS else []
    return [*lines, "", *rows(["input", "kind", "bounds"], [*groups[:MOST_ROWS], *more])]


def golden_rows() -> list[list[Any]]:
    """(environment, reference, transitions, largest error) of the last golden tests that were kept."""
    path = DOCS / "golden.json"
    return json.loads(path.read_text()) if path.is_file() else []


def solved_rows() -> list[list[str]]:
    """Of each study's trial 0, the newest definition's runs."""
    path = DOCS / "solved.json"
    if not path.is_file():
        return []
    runs: dict[str, dict[str, list[dict]]] = {}
    for run in json.loads(path.read_text())["runs"]:
        runs.setdefault(run["study"], {}).setdefault(run["hash"], []).append(run)
    found = []
    for name, by_hash in sorted(runs.items()):
        mine = list(by_hash.values())[-1]
        solved = sum(run["status"] == "solved" for run in mine)
        middle = {}
        for key in ("seconds", "cpu_seconds", "env_steps"):
            value = statistics.median(run[key] if run["status"] == "solved" else math.inf for run in mine)
            middle[key] = value if math.isfinite(value) else None
        found.append([name, f"{mine[0]['parameters']:,}", f"{solved} of {len(mine)}", formats.number(middle["seconds"]),
                      formats.number(middle["cpu_seconds"]), formats.short(middle["env_steps"]),
                      formats.short(statistics.median(r["env_steps"] / r["cpu_seconds"] for r in mine))])  # fmt: skip
    return found


def _picture(name: str) -> Path:
    return DOCS / "pictures" / f"{name}.svg"


# -- pictures -----------------------------------------------------------------------------------------------------


def draw(name: str) -> str | None:
    """The game as SVG after some env steps of random play; None where its header has no picture."""
    from trainer_native import pictures

    env, rng = environments.find(environments.folders()[-1] / f"{name}.h"), np.random.default_rng(0)
    if not env.picture:
        return None
    state = environments.initial_state(env, 0)
    for step in range(min(DRAWN_AFTER, env.longest_episode // 2)):
        action = [int(rng.integers(n)) for n in env.choices] or rng.uniform(*env.action_bounds.T)
        after, _, terminated, truncated, _ = environments.transition(env, state, action[0] if len(env.choices) == 1 else action, step)
        if not (terminated or truncated):
            state = after
    width, height = env.picture
    scale = PIXELS / max(width, height)
    marks = [_mark(mark) for mark in pictures.marks(env, state, env.param_bytes({}))]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width * scale:.0f}" height="{height * scale:.0f}">',
        f"<title>{escape(name)}</title>", f'<rect width="{width:g}" height="{height:g}"/>', *marks, "</svg>\n"])  # fmt: skip


def _mark(mark: Any) -> str:
    x, y, w, h, thickness = (f"{float(mark[key]):.4g}" for key in ("x", "y", "w", "h", "thickness"))
    colour = f"#{int(mark['colour']):06x}"
    if mark["shape"] == 0:
        return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{colour}"/>'
    if mark["shape"] == 1:
        return f'<circle cx="{x}" cy="{y}" r="{w}" fill="{colour}"/>'
    return f'<line x1="{x}" y1="{y}" x2="{w}" y2="{h}" stroke="{colour}" stroke-width="{thickness}"/>'


def main(words: list[str]) -> None:
    if words == ["--check"]:
        if not PAGE.is_file() or PAGE.read_text() != page():
            sys.exit(f"{PAGE}: stale: run `python scripts/environments_page.py`")
        return
    if words:
        sys.exit(__doc__)
    (DOCS / "pictures").mkdir(exist_ok=True)
    for name in shipped():
        if svg := draw(name):
            _picture(name).write_text(svg)
    PAGE.write_text(page())


if __name__ == "__main__":
    main(sys.argv[1:])
