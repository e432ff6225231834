"""MinGRU with a highway beside an LSTM and an MLP: the verified time to solve of each game, after searches of equal budget.

    python scripts/compare_cells.py [--games tmaze,acrobot] [--cells mingru,lstm,mlp] [--budget 3m] [--verify 2m] [--db FILE] [--out FILE]

For each game and cell the shipped study is searched with its cell fixed, in the same space, from the same trial 0 (the trainer's
defaults: [start] is left out, since it was found with one cell), with the same budget; finalists are measured again with fresh
seeds, as `sweep run` does. A row is the fastest verified trial. What has come to its end in the database is not run again, and
what was interrupted goes on with what is left of its budget: give the same command again. Leave the machine alone: verified times are wall time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

from sweep import dimensions, engine, formats, results, study, terminal
from sweep.store import Store

GAMES = "cartpole,cartpole_masked,acrobot,tmaze,memory_chain,repeat_previous"
CELLS = "mingru,lstm,mlp"
FIRST = "mingru"  # ratios are to this cell


def question(game: str, cell: str, budget: str, verify: str) -> study.Study:
    """The shipped study of a game with its cell fixed and nothing known of where to start."""
    shipped = study.load(game, budget=budget, verify=verify)
    return dataclasses.replace(shipped, name=f"{game}_{cell}", start={},
                               dimensions={**shipped.dimensions, "cell": dimensions.Fixed(cell)})


def is_finished(store: Store, asked: study.Study) -> bool:
    """Whether the study has come to its end in this database."""
    for row in store.studies():
        if row["name"] == asked.name and row["hash"] == asked.hash:
            return any((i["totals"] or {}).get("finished") for i in store.invocations(row["id"]))
    return False


def found(store: Store, asked: study.Study) -> dict[str, Any]:
    """The row of a study: its fastest verified trial, else how close the search came."""
    known = [row["id"] for row in store.studies() if row["name"] == asked.name and row["hash"] == asked.hash]
    if not known:
        return {"trials": 0, "runs": 0, "runs_solved": 0, "verified": None}
    data = results.collect(store, known[0])
    runs = [run for trial in data["trials"] for run in trial["runs"]]
    verified = [t for t in data["trials"] if t["is_verified"]]
    fastest = min(verified, key=lambda t: t["verified"]["seconds"]["restart_ert"], default=None)
    row: dict[str, Any] = {"trials": len(data["trials"]), "runs": len(runs),
                           "runs_solved": sum(run["status"] == "solved" for run in runs), "verified": None}
    if fastest:
        row["verified"] = {"trial": fastest["number"], "parameters": fastest["parameters"], "params": fastest["params"],
                           **{key: fastest["verified"][key] for key in ("runs", "solved", "seconds", "env_steps", "steps_per_second")},
                           "smallest": min(t["parameters"] for t in verified)}
    return row


def ratio(mine: dict | None, first: dict | None) -> list[float] | None:
    """restart ERT over that of FIRST, with the least and the most that the two 95% intervals allow."""
    if not mine or not first:
        return None
    a, b = mine["seconds"], first["seconds"]
    return [a["restart_ert"] / b["restart_ert"], a["restart_ert_low"] / b["restart_ert_high"], a["restart_ert_high"] / b["restart_ert_low"]]


def table(rows: dict[str, dict[str, dict]]) -> str:
    """What was found, one line per game and cell."""
    lines = []
    for game, cells in rows.items():
        for cell, row in cells.items():
            best = row["verified"]
            if best is None:
                lines.append([game, cell, "", f"none verified; {row['runs_solved']} of {row['runs']} runs solved", "", "", "", ""])
                continue
            t, compared = best["seconds"], ratio(best, cells.get(FIRST, {}).get("verified"))
            spans = [f"{formats.number(value)} ({formats.number(low)}–{'∞' if high is None or math.isinf(high) else formats.number(high)})"
                     for value, low, high in ((t["median"], t["low"], t["high"]), (t["restart_ert"], t["restart_ert_low"], t["restart_ert_high"]))]
            told = "" if compared is None or cell == FIRST else f"{compared[0]:.2f} ({compared[1]:.2f}–{compared[2]:.2f})"
            lines.append([game, cell, formats.whole(best["parameters"]), f"{best['solved']}/{best['runs']}", *spans,
                          formats.short(best["env_steps"]["median"]), told])
    head = ["game", "cell", "size", "solved", "median, s (95%)", "restart ERT, s (95%)", "env steps", f"ERT / {FIRST}'s"]
    return terminal.table(head, lines)


def finite(value: Any) -> Any:
    """`value` as JSON has it: null for infinity."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(out: Path, rows: dict[str, dict[str, dict]], about: dict[str, Any]) -> None:
    """All that was found so far."""
    told = {game: {cell: row | {"ratio": ratio(row["verified"], cells.get(FIRST, {}).get("verified"))} for cell, row in cells.items()}
            for game, cells in rows.items()}
    partial = out.with_suffix(".partial")
    partial.write_text(json.dumps(finite({"about": about, "games": told}), indent=1) + "\n")
    partial.replace(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", default=GAMES, help="studies that ship, with commas between")
    parser.add_argument("--cells", default=CELLS)
    parser.add_argument("--budget", default="3m", help="wall-clock of each search")
    parser.add_argument("--verify", default="2m", help="wall-clock of measuring each search's finalists again, at most")
    parser.add_argument("--workers", type=int, default=None, help="default: one per core")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--db", type=Path, default=Path("compare_cells.db"))
    parser.add_argument("--out", type=Path, default=Path("compare_cells.json"))
    options = parser.parse_args()
    games, cells = options.games.split(","), options.cells.split(",")
    asked = {game: {cell: question(game, cell, options.budget, options.verify) for cell in cells} for game in games}
    rows: dict[str, dict[str, dict]] = {}
    with Store(options.db) as store:
        for game in games:
            for cell in cells:
                if not is_finished(store, asked[game][cell]):
                    print(f"{game}, {cell}: {options.budget} of search, up to {options.verify} of verification", file=sys.stderr)
                    engine.run(asked[game][cell], store, workers=options.workers, seed=options.seed, command="compare_cells")
                rows.setdefault(game, {})[cell] = found(store, asked[game][cell])
            write(options.out, rows, {"budget": options.budget, "verify": options.verify, "seed": options.seed,
                                      "machine": engine.machine.facts(), "first": FIRST})
            print(table({game: rows[game]}), file=sys.stderr)
    print(table(rows))
    print(f"\nratio: with the least and the most that both intervals allow; below 1 is faster than {FIRST}; JSON: {options.out}")


if __name__ == "__main__":
    main()
