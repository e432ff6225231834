"""What a run refuses before it allocates anything, the memory it needs, and the states it is saved in and goes on from."""

import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import trainer_native
from sweep import workers
from trainer_native import Solve, config, environments, memory, states, trainer

NEVER = Solve(mean_return=1e6, episodes=20)
SMALL = {"hidden": 8, "envs": 8, "horizon": 8, "minibatches": 2}


def train(env="cartpole", seed=1, solve=NEVER, steps=640, **more):
    params = {k: more.pop(k) for k in list(more) if k in config.HYPERPARAMETERS}
    return trainer_native.train(env, SMALL | params, seed, solve, 60.0, steps, **more)


@pytest.fixture
def nothing_runs(monkeypatch):
    """Whatever reaches C++ fails the test."""
    def reached(*arguments):
        raise AssertionError("C++ was asked to train")

    class Core:
        train = evaluate = staticmethod(reached)

        def __getattr__(self, name):
            return getattr(real, name)

    real = trainer._core()
    monkeypatch.setattr(trainer, "_core", Core)


# -- hyperparameters -------------------------------------------------------------------------------------------


def illegal(h):
    """Values that a hyperparameter cannot have."""
    if h.kind is bool:
        return [0, 1, "true", 1.0] + ([] if h.default is None else [None])
    if h.choices:
        return ["", "nobody", 1, True, [h.choices[0]]] + ([] if h.default is None else [None])
    values = ["1", True, [1], math.nan, math.inf, -math.inf] + ([] if h.default is None else [None])
    if h.low is not None:
        values += [h.low - 1, h.high + 1, np.nextafter(h.low, -np.inf), np.nextafter(h.high, np.inf)]
    if h.kind is int:
        values += [h.low + 0.5, 2**70] + ([h.low + 1] if h.multiple > 1 else [])
    return values


TABLE = {**config.HYPERPARAMETERS, **environments.find("breakout").params, **environments.find("cartpole").params}


@pytest.mark.parametrize("name", TABLE)
def test_values_outside_a_range_are_one_clear_error(name, nothing_runs):
    h = TABLE[name]
    env = "breakout" if name in environments.find("breakout").params else "cartpole"
    for value in illegal(h):
        with pytest.raises(config.ConfigError) as error:
            trainer_native.train(env, {name: value}, 1, NEVER, 60.0)
        text = str(error.value)
        assert error.value.key == name and repr(name) in text and h.legal() in text and "\n" not in text, value


@pytest.mark.parametrize("name", TABLE)
def test_the_ends_of_a_range_are_legal(name):
    h = TABLE[name]
    for value in h.choices or ([True, False] if h.kind is bool else [h.low, h.high]):
        assert h.check(value) == value and type(h.check(value)) is h.kind
    if h.kind in (int, float) and h.low is not None:  # NumPy's numbers are numbers
        assert h.check(np.float64(h.high)) == h.high


COMBINATIONS = [
    ("minibatches", {"envs": 8, "minibatches": 3}, "'minibatches' 3 does not divide envs 8"),
    ("minibatches", {"envs": 4, "minibatches": 8}, "'minibatches' 8 does not divide envs 4"),
    ("cell", {"cell": "gru"}, "'cell' is 'gru'; legal is one of"),
    ("activation", {"activation": "relu"}, "'activation' 'relu' is for cell 'mlp'"),
    ("minibatch_of", {"minibatch_of": "transitions"}, "'minibatch_of' 'transitions' is for cell 'mlp'"),
    ("minibatches", {"cell": "mlp", "minibatch_of": "transitions", "envs": 4, "horizon": 5, "minibatches": 8},
     "'minibatches' 8 does not divide the 20 transitions"),
    ("hidden", {"hidden": 20}, "a multiple of 8"),
    ("envs", {"envs": 6}, "a multiple of 4"),
    ("horizon", {"horizon": 2048}, "from 4 to 1024"),
]


@pytest.mark.parametrize(("key", "params", "text"), COMBINATIONS, ids=lambda x: str(x)[:30])
def test_combinations_that_cannot_be_trained_are_named(key, params, text, nothing_runs):
    with pytest.raises(config.ConfigError, match=text) as error:
        trainer_native.train("cartpole", params, 1, NEVER, 60.0)
    assert error.value.key == key


ARGUMENTS = [
    ({"seed": -1}, "a seed is"), ({"seed": 2**63}, "a seed is"), ({"seed": 1.5}, "a seed is"), ({"seed": True}, "a seed is"),
    ({"solve": Solve(math.nan)}, "mean_return"), ({"solve": Solve("475")}, "mean_return"), ({"solve": Solve(1.0, 0)}, "episodes"),
    ({"solve": Solve(1.0, 10**7)}, "from 1 to 1000000"), ({"solve": Solve(1.0, 2.5)}, "episodes"),
    ({"solve": Solve(1.0, 10, "best")}, "policy"), ({"steps": -1}, "max_env_steps"), ({"steps": 0.5}, "max_env_steps"),
    ({"control": bytes(16)}, "writable buffer of two float64"), ({"control": bytearray(8)}, "writable buffer"),
    ({"device": "cuda"}, "the device 'cuda' is not there"),
]  # fmt: skip


@pytest.mark.parametrize(("more", "text"), ARGUMENTS, ids=lambda x: str(x)[:40])
def test_arguments_that_are_none_are_named(more, text, nothing_runs):
    with pytest.raises(ValueError, match=text):
        train(**more)


def test_long_observations_are_fine(tmp_path):
    header = tmp_path / "corridor.h"
    header.write_text("""
#pragma once
#include "environment.h"
namespace corridor {
constexpr int observation_size = 3001, actions = 2, longest_episode = 40;
struct State { int place, steps; };
struct Params {};
SWEEP_FN constexpr sweep::Input input(int) { return sweep::flag(); }
SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) { s.place = rng.below(3001); s.steps = 0; }
SWEEP_FN sweep::Outcome step(State& s, const Params&, int action, sweep::Rng&) {
    return {action == s.place % 2 ? 1.0f : 0.0f, false, ++s.steps >= 40};
}
SWEEP_FN void observe(const State& s, const Params&, float* o) {
    for (int i = 0; i < 3001; i++) o[i] = i == s.place ? 1.0f : 0.0f;
}
}  // namespace corridor
""")
    params = {"hidden": 16, "envs": 16, "horizon": 16}
    half = trainer_native.train(header, params, 1, NEVER, 60.0, 1_024, keep_state=True)
    run = trainer_native.train(header, params, 1, NEVER, 60.0, 2_048, state=half.state)
    whole = trainer_native.train(header, params, 1, NEVER, 60.0, 2_048)
    assert run.weights["encoder"].shape == (3002, 16)
    assert all(run.weights[k].tobytes() == whole.weights[k].tobytes() for k in whole.weights)


# -- memory ----------------------------------------------------------------------------------------------------

HUGE = {"envs": 4096, "horizon": 1024}


def test_what_does_not_fit_says_how_much_it_would_need(monkeypatch, nothing_runs):
    monkeypatch.setattr(memory, "available", lambda: 840_000_000)
    needed = trainer.memory_needed("breakout", HUGE, NEVER)
    assert needed > 4096 * 1024 * 4 * environments.find("breakout").observation_size
    text = (f"4096 envs over a horizon of 1024 of breakout, hidden 16, would need {needed / 1e9:.1f} GB; this machine has "
            "840 MB free: fewer envs, a shorter horizon or a smaller network")
    with pytest.raises(config.ConfigError, match=text):
        trainer_native.train("breakout", HUGE, 1, NEVER, 60.0)
    with pytest.raises(config.ConfigError, match="1000000 episodes side by side of .* would need .*: fewer episodes"):
        train("breakout", hidden=64, solve=Solve(1e6, 1_000_000))


def test_an_evaluation_that_does_not_fit_is_refused_too(monkeypatch):
    run = train("breakout")
    monkeypatch.setattr(memory, "available", lambda: 100_000_000)
    with pytest.raises(config.ConfigError, match="1000000 episodes side by side of .*: fewer episodes"):
        trainer_native.evaluate("breakout", SMALL, run.weights, 1_000_000)
    assert trainer_native.evaluate("breakout", SMALL | HUGE, run.weights, 4)["env_steps"] > 0, "no rollout is allocated here"


@pytest.mark.parametrize(("asked", "error"), [(True, "ConfigError"), (False, "MemoryError")])
def test_under_an_address_space_limit_it_is_one_line(asked, error):
    """With 600 MB of address space left a rollout of gigabytes is refused: foreseen, or when the allocation fails."""
    code = f"""
import resource, trainer_native
from trainer_native import Solve, memory
trainer_native.train("breakout", {SMALL}, 1, Solve(1e6), 1.0, 1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 600_000_000,) * 2)
if not {asked}: memory.available = lambda: None
try: trainer_native.train("breakout", {HUGE}, 1, Solve(1e6), 1.0, control=bytearray(16))
except (ValueError, MemoryError) as error: print(type(error).__name__, error)
print(trainer_native.train("breakout", {SMALL}, 1, Solve(1e6), 1.0, 1).status)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    refused, again = done.stdout.splitlines()
    assert refused.startswith(error) and " GB" in refused and "fewer envs, a shorter horizon" in refused and again == "censored"


def test_the_least_limit_that_holds_counts(tmp_path):
    """A cgroup of version 2 within another, and one of version 1; file cache that can be dropped is free."""
    def group(path, limit, used, stat, names=("memory.max", "memory.current")):
        path.mkdir(parents=True, exist_ok=True)
        (path / names[0]).write_text(f"{limit}\n")
        (path / names[1]).write_text(f"{used}\n")
        (path / "memory.stat").write_text(f"anon 5\n{stat}\n")

    group(tmp_path / "a", 1000, 700, "inactive_file 200")
    group(tmp_path / "a/b", "max", 600, "inactive_file 0")
    (tmp_path / "new").write_text("0::/a/b\n")
    assert memory._cgroups(tmp_path / "new", tmp_path) == [500]
    group(tmp_path / "memory/c", 900, 500, "total_inactive_file 10", ("memory.limit_in_bytes", "memory.usage_in_bytes"))
    (tmp_path / "old").write_text("4:cpu,cpuacct:/c\n3:memory:/c\n0::/nowhere\n")
    assert memory._cgroups(tmp_path / "old", tmp_path) == [410]
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:      7 kB\n")
    assert memory._machine(tmp_path / "meminfo") == 7168 and memory._machine(tmp_path / "none") is None
    assert memory.words(13.24e9) == "13.2 GB" and memory.words(840e6) == "840 MB"
    assert memory.available() is None or memory.available() > 10_000_000


def test_a_huge_run_gives_its_memory_back():
    resident = """
import resource, trainer_native
from array import array
from trainer_native import Solve
def now(): return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
trainer_native.train("breakout", {"envs": 8, "horizon": 8}, 1, Solve(1e6), 1.0, 1, control=array("d", [1.0, 0.0]))
before = now()
trainer_native.train("breakout", {"envs": 1024, "horizon": 256}, 1, Solve(1e6), 1.0, control=array("d", [1e-3, 0.0]))
print(now() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
"""
    done = subprocess.run([sys.executable, "-c", resident], capture_output=True, text=True, check=True)
    left, most = map(int, done.stdout.split())
    assert left < 10_000_000 and most > 100_000_000


CASES = [(env, hidden) for env in ("cartpole", "breakout") for hidden in (8, 256)]


def test_a_worker_stays_under_80_megabytes():
    """All that a worker process of a study ever holds: interpreter, NumPy, and the narrowest and widest networks in turn."""
    with workers.LocalPool(1) as pool:
        for key, (env, hidden) in enumerate(CASES):
            params = {"hidden": hidden, "envs": 128, "horizon": 64, "try_from": -1e9}
            pool.submit({"key": key, "trainer": "native", "env": env, "params": params, "seed": 1, "cap_seconds": 60.0,
                         "solve": {"mean_return": 1e6, "episodes": 100, "policy": "sampled"}, "max_env_steps": 8192})
            while not (finished := pool.wait(60)):
                pass
            assert finished[0].run.status == "censored" and finished[0].run.env_steps == 8192
        status = Path(f"/proc/{pool._workers[0].process.pid}/status")
        if not status.is_file():
            pytest.skip("only Linux tells a process's most resident memory")
        most = next(1024 * int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    assert most < 80e6


@pytest.mark.parametrize(("env", "hidden"), CASES)
def test_a_run_begins_within_milliseconds(env, hidden):
    """Everything around training: checks, memory, first weights and states, and the way back. 5 ms on an idle core; a busy
    one may take twice as long."""
    environment, around = environments.find(env), []
    for _ in range(4):
        before, control = time.thread_time(), np.array([1e-9, 0.0])
        run = trainer_native.train(environment, {"hidden": hidden, "envs": 128, "horizon": 64}, 1, Solve(1e6), 1.0, control=control)
        around.append(time.thread_time() - before - run.cpu_seconds)
        assert run.reason == "cap"
    assert min(around) < 0.010


# -- states ----------------------------------------------------------------------------------------------------


def test_only_unsolved_runs_keep_a_state_and_only_where_asked():
    assert train().state is None
    assert len(train(keep_state=True).state) > 1000
    easy = train(solve=Solve(5.0, 4), steps=100_000, keep_state=True)
    assert easy.status == "solved" and easy.state is None
    stopped = train(control=np.array([60.0, 1.0]), keep_state=True)
    assert stopped.reason == "cancelled" and stopped.state is not None


def test_a_state_at_its_limit_already_ends_at_once():
    half = train(keep_state=True)
    again = train(state=half.state, keep_state=True)
    assert (again.env_steps, again.iterations, again.reason) == (half.env_steps, half.iterations, "env-step limit")
    assert again.seconds >= half.seconds and again.curve[-1, 2] == half.env_steps and len(again.curve) == len(half.curve)
    assert all(again.weights[k].tobytes() == half.weights[k].tobytes() for k in half.weights)


def test_a_state_from_the_middle_of_a_rollout_is_that_of_its_beginning():
    """A cap is kept inside an iteration of four million env steps too; what can be resumed is the last whole one."""
    params = {"envs": 4096, "horizon": 1024}
    run = trainer_native.train("cartpole", params, 1, NEVER, max_seconds=0.05, keep_state=True)
    assert (run.reason, run.env_steps) == ("cap", 0) and run.cpu_seconds < 1.0
    again = trainer_native.train("cartpole", params, 1, NEVER, max_seconds=0.05, state=run.state, keep_state=True)
    assert (again.reason, again.env_steps) == ("cap", 0)


def test_a_state_of_anything_else_is_refused(monkeypatch):
    state = train(keep_state=True).state
    refusals = [
        ({"env": "breakout"}, "a run in cartpole, not in breakout"),
        ({"gamma": 0.9}, "a run with gamma 0.98, not 0.9"),
        ({"hidden": 16}, "a run with hidden 8, not 16"),
        ({"seed": 2}, "a run with seed 1, not 2"),
        ({"solve": Solve(1e6, 21)}, "a run with episodes 20, not 21"),
        ({"solve": Solve(1e6, 20, "greedy")}, "a run with policy 'sampled', not 'greedy'"),
    ]
    for more, text in refusals:
        with pytest.raises(ValueError, match=f"the state is of {text}"):
            train(**more, state=state)
    with monkeypatch.context() as changed:
        changed.setattr(config, "SEMANTICS", config.SEMANTICS + 1)
        with pytest.raises(ValueError, match=r"of another trainer \(semantics"):
            train(state=state)
    with monkeypatch.context() as changed:
        real = trainer._label
        changed.setattr(trainer, "_label", lambda *a: real(*a) | {"fma": not real(*a)["fma"]})
        with pytest.raises(ValueError, match="of another trainer .*fused multiply-add"):
            train(state=state)
        changed.setattr(trainer, "_label", lambda *a: real(*a) | {"layout": 1})
        with pytest.raises(ValueError, match="of another trainer .*another layout"):
            train(state=state)
        changed.setattr(trainer, "_label", lambda *a: real(*a) | {"environment": "0" * 64})
        with pytest.raises(ValueError, match="cartpole as its header was before it was edited"):
            train(state=state)


def test_a_damaged_state_is_refused():
    state = train(keep_state=True).state
    for bad in (b"", b"sweep", "text", 7, state[8:], np.zeros(3)):
        with pytest.raises(ValueError, match="not the state of a run"):
            train(state=bad)
    for bad in (state[:-1], state[:20], state[: len(states.MAGIC)], state + b"\0", state[:-40] + state[-32:]):
        with pytest.raises(ValueError, match="the state is damaged"):
            train(state=bad)
    for at in range(8, len(state), 97):  # one bit anywhere
        with pytest.raises(ValueError, match="the state is damaged"):
            train(state=state[:at] + bytes([state[at] ^ 4]) + state[at + 1 :])
    assert train(state=bytearray(state), steps=1000).env_steps >= 1000


def test_instruction_sets_with_fused_multiply_add_go_on_from_each_other(monkeypatch):
    core = trainer._core()
    fused = [isa for isa in core.instruction_sets() if core.runs_here(isa) and core.has_fma(isa)]
    whole = train(steps=1280)
    for first in fused:
        monkeypatch.setattr(trainer, "isa", lambda isa=first: isa)
        state = train(keep_state=True).state
        for second in fused:
            monkeypatch.setattr(trainer, "isa", lambda isa=second: isa)
            run = train(steps=1280, state=state)
            assert all(run.weights[k].tobytes() == whole.weights[k].tobytes() for k in whole.weights)
