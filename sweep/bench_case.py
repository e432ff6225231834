"""One timing of the trainer, in a process of its own: a case as JSON in the argument, what was measured as JSON on stdout.

Run as a file, so that it can time another build: it asks of `trainer_native` what every version of it has.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from importlib import machinery

#: Iterations whose cost is looked at apart: the first, which finds nothing in the caches, and those after it.
EARLY = 7


def main(case: dict) -> dict:
    """What `case` (build, env, params, seed, env_steps, limits) took; `error` where it cannot run.

    Two runs of the same seed: a short one, cold, for the start and the first iterations, then the one that is timed.
    """
    if case["build"]:
        _import_from(case["build"])
    import trainer_native

    try:
        environment = trainer_native.environments.find(case["env"])
        info = trainer_native.build_info()
        per_iteration = case["per_iteration"]
        before = _most_memory()
        called, called_cpu = time.perf_counter(), time.process_time()
        first = _train(trainer_native, environment, case, EARLY * per_iteration)
        start_seconds = time.perf_counter() - called - first.seconds
        start_cpu_seconds = time.process_time() - called_cpu - first.cpu_seconds
        memory = _most_memory()
        run = _train(trainer_native, environment, case, case["env_steps"])
    except (ValueError, MemoryError) as error:
        return {"error": str(error) or "out of memory"}
    rest = next((p for p in run.curve if p[2] >= EARLY * per_iteration), run.curve[-1])
    later = run.env_steps - rest[2]
    phases = getattr(run, "phases", {})
    if not sum(phases.values()):  # an older build, or a processor without a clock for them
        phases = {"rollout": run.rollout_seconds, "update": run.update_seconds}
    found = {
        "env_steps": run.env_steps, "cpu_seconds": run.cpu_seconds, "seconds": run.seconds, "status": run.status,
        "phases": phases,
        "iteration_0": first.curve[0][0] / first.curve[0][2],
        "iterations_1_6": (first.curve[-1][0] - first.curve[0][0]) / max(1.0, first.curve[-1][2] - first.curve[0][2]),
        "rest": (run.curve[-1][0] - rest[0]) / later if later else None,
        "start_seconds": start_seconds, "start_cpu_seconds": start_cpu_seconds,
        "rss_bytes": memory, "rss_growth_bytes": memory - before,
        "weights": _hash(run.weights), "semantics": info["semantics"], "isa": info["isa"], "compiler": info["compiler"],
        "environment_hash": environment.source_hash,
    }
    if case["limits"]:
        from trainer_native import limits

        found |= limits.measure(environment, case["params"])
    return found


def _train(trainer_native, environment, case: dict, env_steps: int):
    never = trainer_native.Solve(1e9)
    return trainer_native.train(environment, case["params"], case["seed"], never, 1e9, env_steps)


def _hash(weights: dict) -> str:
    """Of the bits of all weights."""
    bits = hashlib.sha256()
    for name in sorted(weights):
        bits.update(name.encode() + weights[name].tobytes())
    return bits.hexdigest()


def _most_memory() -> int:
    """The most memory this process has had so far, bytes. Where /proc tells it: elsewhere its parent's may be in it."""
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _import_from(folder: str) -> None:
    """`trainer_native` is the one in `folder`, whatever is installed here, editable installs included."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder in
                        (machinery.BuiltinImporter, machinery.FrozenImporter, machinery.PathFinder)]
    sys.path.insert(0, folder)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
