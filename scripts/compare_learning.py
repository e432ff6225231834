"""The same work as others do: CartPole-v1 by their PPO with their params, and by this trainer with the same ones.

Their learning curves over 20 seeds are recorded in tests/golden, so that comparing needs none of their libraries. Ours are
trained here, and compared by two permutation tests of stated error rates (learning_bands.py): does our mean curve stay
within the 95% band of theirs, and are the two sets of whole curves alike?

    python scripts/compare_learning.py [--with sb3] [--seeds 20] [--figure docs/learning.svg] [--json]
    python scripts/compare_learning.py --live [--seeds 3]      # trains theirs too, in turn with ours, one core each
    python scripts/compare_learning.py --record                # the same over all seeds, and keeps it in tests/golden

`--live` and `--record` need the others' libraries: pip install 'solve-sweep[compare]'."""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from datetime import date
from pathlib import Path

import learning_bands
import learning_recordings
import numpy as np
from learning_recordings import Recording
from same_work import OTHERS, PARAMS, ours

SEEDS = 20


def recording_of(name: str) -> Path:
    return learning_recordings.FOLDER / f"learning_{name}.npz"


def side_by_side(name: str, seeds: int, env_steps: int, live: bool, progress) -> dict:
    """Trains ours with each seed, and theirs in turn with it where it is `live`. What `compared` makes a result of."""
    reference = importlib.import_module(OTHERS[name])
    runs, lengths, seconds = [], [], []
    for seed in range(seeds):
        progress(f"{reference.NAME}, seed {seed + 1} of {seeds}")
        if live:
            ended, took = reference.train(seed)
            lengths.append(learning_recordings.lengths_of(ended))
            seconds.append(took)
        runs.append(ours(name, seed, env_steps))
    if live:
        from sweep import machine

        about = {"name": reference.NAME, "params": reference.PARAMS, "versions": reference.versions(),
                 "env_steps": reference.ENV_STEPS, "seeds": seeds, "date": str(date.today()), "cpu": machine.facts()["cpu"],
                 "cpu_seconds": statistics.median(seconds)}
        return {"reference": reference, "runs": runs, "recording": Recording(lengths, about), "seconds": seconds}
    return {"reference": reference, "runs": runs, "recording": learning_recordings.load(recording_of(name)), "seconds": None}


def compared(name: str, found: dict) -> dict:
    """One entry of what `--json` prints, and the curves of both."""
    from trainer_native import limits

    runs, recording = found["runs"], found["recording"]
    env_steps = runs[0].curve[:, 2].astype(np.int64)
    curves = np.array([run.curve[:, 3] for run in runs])
    others = learning_bands.curves_of(recording, env_steps)
    comparison = learning_bands.compare(env_steps, curves, others)
    speed = statistics.median(run.env_steps / run.cpu_seconds for run in runs)
    flop = limits.flop_per_env_step("cartpole", PARAMS[name])
    peak = limits.measure("cartpole", PARAMS[name])["peak_flops"]
    theirs = found["seconds"] and found["reference"].ENV_STEPS / statistics.median(found["seconds"])
    return {
        "with": found["reference"].NAME, "recorded": recording.about, "params": PARAMS[name], "seeds": len(runs),
        "env_steps": int(env_steps[-1]), "alike": comparison.alike, "within_band": comparison.within,
        "band_p": comparison.band_p, "band_error": learning_bands.BAND_ERROR, "curves_p": comparison.curves_p,
        "curves_error": learning_bands.CURVES_ERROR, "env_steps_per_cpu_second": speed, "flop_per_env_step": flop,
        "peak_gflops": peak / 1e9, "share_of_peak": speed * flop / peak, "others_env_steps_per_cpu_second": theirs,
        "curve": {"env_steps": comparison.env_steps.tolist(), "mean": comparison.mean.tolist(),
                  "others_mean": comparison.others_mean.tolist(), "half_band": comparison.half_band.tolist()},
    }


def summary(row: dict) -> str:
    """Three lines for people."""
    verdict = "alike" if row["alike"] else "NOT ALIKE"
    theirs = row["others_env_steps_per_cpu_second"]
    times = f", {row['env_steps_per_cpu_second'] / theirs:.1f} × {row['with']}'s {theirs:,.0f}" if theirs else ""
    return (f"{row['with']}: {verdict} over {row['seeds']} seeds and {row['env_steps']:,} env steps\n"
            f"  mean curve within the 95% band: {'yes' if row['within_band'] else 'no'} (p = {row['band_p']:.3f}); "
            f"whole curves: p = {row['curves_p']:.3f}, refused below {row['curves_error']}\n"
            f"  {row['env_steps_per_cpu_second']:,.0f} env steps per CPU second, {row['share_of_peak']:.0%} of the peak{times}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with", dest="others", choices=sorted(OTHERS), action="append", help="default: each")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--env-steps", type=int, help="end ours after so many, with the schedules of whole runs")
    parser.add_argument("--live", action="store_true", help="train theirs too, in turn with ours")
    parser.add_argument("--record", action="store_true", help="--live, and keep their curves in tests/golden")
    parser.add_argument("--figure", type=Path, help="write the curves as an SVG")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.record and arguments.seeds != SEEDS:
        parser.error(f"--record keeps {SEEDS} seeds, not {arguments.seeds}")
    rows, start = [], time.monotonic()
    for name in arguments.others or sorted(OTHERS):
        found = side_by_side(name, arguments.seeds, arguments.env_steps or importlib.import_module(OTHERS[name]).ENV_STEPS,
                             arguments.live or arguments.record,
                             lambda line: print(f"[{time.monotonic() - start:.0f} s] {line}", file=sys.stderr))
        if arguments.record:
            learning_recordings.save(found["recording"], recording_of(name))
        rows.append((compared(name, found), found))
    if arguments.figure:
        import learning_figure

        arguments.figure.write_text(learning_figure.draw(rows))
    print(json.dumps([row for row, _ in rows], indent=1) if arguments.json else "\n".join(summary(row) for row, _ in rows))


if __name__ == "__main__":
    main()
