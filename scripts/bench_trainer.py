"""Env steps per CPU second of the native trainer on one core, each case in a process of its own, beside its bound.

The bound of a case is its FLOP count over the peak measured in the same process, plus the measured time of the
environment. FLOP per env step = 2 MAC + epochs (4 d H + 6 (3 H² L + H (A + 1))), MAC = d H + 3 H² L + H (A + 1): a
forward pass to act, and per epoch a forward and a backward pass; the encoder needs no gradient for its input.

    python scripts/bench_trainer.py [--json] [--repeats 3] [--steps 4000000]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

CASES = [
    {"env": "cartpole", "hidden": 8, "epochs": 1},
    {"env": "cartpole", "hidden": 32, "epochs": 1},
    {"env": "breakout", "hidden": 8, "epochs": 2},
    {"env": "breakout", "hidden": 16, "epochs": 2},
    {"env": "breakout", "hidden": 32, "epochs": 2},
    {"env": "breakout", "hidden": 64, "epochs": 2},
]


def measure(case: dict, env_steps: int) -> dict:
    """One case, here and now: env steps per CPU second, FLOP per env step, the bound."""
    import trainer_native
    from trainer_native import _core, environments, trainer

    environment = environments.find(case["env"])
    params = {"hidden": case["hidden"], "epochs": case["epochs"], "envs": 128, "horizon": 64, "minibatches": 4}
    peak = max(_core.peak_flops(trainer.isa()) for _ in range(3))
    rounds = 20_000
    environment_seconds = _core.environment_seconds(
        trainer.isa(), environment.table_address, environment.param_bytes({}), 128, rounds, 0) / (rounds * 128)
    run = trainer_native.train(environment, params, 1, trainer_native.Solve(1e9), 1e9, env_steps)
    d, h, outputs = environment.observation_size + 1, case["hidden"], environment.actions + 1
    flop = 2 * (d * h + 3 * h * h + h * outputs) + case["epochs"] * (4 * d * h + 6 * (3 * h * h + h * outputs))
    bound = 1.0 / (flop / peak + environment_seconds)
    steps_per_second = run.env_steps / run.cpu_seconds
    return {**case, "steps_per_cpu_second": steps_per_second, "bound": bound, "share_of_bound": steps_per_second / bound,
            "flop_per_env_step": flop, "peak_gflops": peak / 1e9, "environment_ns": environment_seconds * 1e9,
            "isa": trainer.isa()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4_000_000)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(json.loads(arguments.case), arguments.steps)))
        return
    rounds: list[list[dict]] = [[] for _ in CASES]
    for _ in range(arguments.repeats):  # the cases in turn, so that a slow minute does not fall on one of them
        for at, case in enumerate(CASES):
            command = [sys.executable, __file__, "--steps", str(arguments.steps), "--case", json.dumps(case)]
            rounds[at].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    rows = []
    for results in rounds:
        median = {key: statistics.median(r[key] for r in results) for key, value in results[0].items()
                  if isinstance(value, float)}
        rows.append({**results[0], **median})
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{rows[0]['isa']}, peak {statistics.median(r['peak_gflops'] for r in rows):.1f} GFLOP/s, one core, "
          f"medians of {arguments.repeats}")
    print(f"{'env':10}{'hidden':>7}{'epochs':>7}{'env steps/CPU s':>17}{'bound':>12}{'share':>7}{'FLOP/step':>11}{'env ns':>8}")
    for r in rows:
        print(f"{r['env']:10}{r['hidden']:7}{r['epochs']:7}{r['steps_per_cpu_second']:17,.0f}{r['bound']:12,.0f}"
              f"{r['share_of_bound']:7.0%}{r['flop_per_env_step']:11,}{r['environment_ns']:8.0f}")


if __name__ == "__main__":
    main()
