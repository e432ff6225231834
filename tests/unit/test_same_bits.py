"""A whole run ends with the same weights, bit for bit, whatever it was compiled for, on however many lanes."""

import shutil

import native_runs
import pytest

import trainer_native
from sweep import doctor, store, study, trainers
from trainer_native import headers, trainer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("native")


@pytest.fixture(scope="module")
def expected():
    """What the installed trainer says of each run, on the best instruction set of this processor."""
    if not trainer_native.build_info()["fma"]:
        pytest.skip("this processor has no fused multiply-add: its runs are its own")
    return {name: native_runs.of_module(name) for name in native_runs.RUNS}


def hashes(lines):
    return {name: line.split()[0] for name, line in lines.items()}


def test_runs_differ(expected):
    assert len(set(expected.values())) == len(expected)


def test_every_instruction_set_that_was_built(expected, monkeypatch):
    core = trainer._core()
    able = [isa for isa in core.instruction_sets() if core.runs_here(isa) and core.has_fma(isa)]
    others = [isa for isa in able if isa != trainer.isa()]
    if not others:
        pytest.skip("one instruction set with fused multiply-add was built, or runs here")
    for isa in others:
        monkeypatch.setattr(trainer, "isa", lambda isa=isa: isa)
        assert {name: native_runs.of_module(name) for name in native_runs.RUNS} == expected, isa


def test_scalar_fma(expected, folder):
    """Narrow vectors, every multiply-add a call, another optimisation level."""
    narrow = ["-march=x86-64-v2"] if headers.machine_isas() != ["plain"] else []
    program = native_runs.build(folder, "scalar", ["-O1", *narrow, "-DSWEEP_SCALAR_FMA"])
    assert hashes(native_runs.run(program)) == expected


def test_arm64(expected, folder):
    compiler = shutil.which("aarch64-linux-gnu-g++")
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if not (compiler and emulator):
        pytest.skip("no compiler for arm64 (aarch64-linux-gnu-g++), or no qemu-user to run its programs")
    program = native_runs.build(folder, "arm64", ["-O2", "-static"], [compiler])
    assert hashes(native_runs.run(program, before=(emulator,))) == expected


def test_lanes(expected, folder):
    """The code that a GPU runs: several lanes, and products without vectors."""
    best = headers.march_flags(headers.machine_isas()[0])
    program = native_runs.build(folder, "lanes", ["-O1", *best, "-DSWEEP_LANES_AS_THREADS", "-DSWEEP_NO_VECTORS"])
    for lanes in (1, 2, 3, 4):
        assert hashes(native_runs.run(program, lanes=lanes)) == expected, lanes
    few = ("truncated, v-trace", "lstm")  # more lanes than environments
    assert hashes(native_runs.run(program, few, lanes=17)) == {name: expected[name] for name in few}


def test_a_build_without_fused_multiply_add_says_so(expected, monkeypatch, tmp_path):
    core = trainer._core()
    without = [isa for isa in core.instruction_sets() if core.runs_here(isa) and not core.has_fma(isa)]
    if not without:
        pytest.skip("every instruction set that was built has fused multiply-add")
    monkeypatch.setattr(trainer, "isa", lambda: without[0])
    assert not set(expected.values()) & {native_runs.of_module(name) for name in ("defaults", "lstm")}
    facts = doctor.examine(str(tmp_path / "sweep.db"))
    assert (facts["chosen"], facts["fused multiply-add"]) == (without[0], "no: other weights than elsewhere for the same seed")
    with store.Store(tmp_path / "sweep.db") as database:
        question = study.load("cartpole")
        study_id = database.open_study(question)
        database.add_invocation(study_id, {}, trainers.build(question), "sweep run cartpole", 1)
        [invocation] = database.invocations(study_id)
    assert (invocation["build"]["isa"], invocation["build"]["fma"]) == (without[0], False)
