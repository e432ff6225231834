"""A whole run ends with the same weights, bit for bit, whatever it was compiled for and on however many lanes it ran."""

import shutil

import native_runs
import pytest

import trainer_native
from trainer_native import headers, trainer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("native")


@pytest.fixture(scope="module")
def expected():
    """What the installed trainer says of each run, on the best instruction set of this processor."""
    if not trainer_native.build_info()["fma"]:
        pytest.skip("this processor has no fused multiply-add: its runs are its own")
    return {name: of_module(name) for name in native_runs.RUNS}


def of_module(name):
    environment, params, steps = native_runs.full(name)
    run = trainer_native.train(environment, params, native_runs.SEED, native_runs.RULE, 1e9, steps)
    assert (run.reason, run.env_steps) == ("env-step limit", steps)
    return native_runs.hash_of(run)


def hashes(lines):
    return {name: line.split()[0] for name, line in lines.items()}


def test_runs_differ(expected):
    assert len(set(expected.values())) == len(expected)


def test_every_instruction_set_that_was_built(expected, monkeypatch):
    core = trainer._core()
    others = [isa for isa in core.instruction_sets() if core.runs_here(isa) and core.has_fma(isa) and isa != trainer.isa()]
    if not others:
        pytest.skip("one instruction set with fused multiply-add was built, or runs here")
    for isa in others:
        monkeypatch.setattr(trainer, "isa", lambda isa=isa: isa)
        assert {name: of_module(name) for name in native_runs.RUNS} == expected, isa


def test_scalar_fma(expected, folder):
    """Narrow vectors, every multiply-add a call, another optimisation level."""
    narrow = ["-march=x86-64-v2"] if headers.machine_isas() != ["plain"] else []
    program = native_runs.build(folder, "scalar", ["-O1", *narrow, "-DSWEEP_SCALAR_FMA"])
    assert hashes(native_runs.run(program)) == expected


def test_arm64(expected, folder):
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if not (compiler and emulator):
        pytest.skip("no compiler for arm64 (aarch64-linux-gnu-g++), or no qemu-user to run its programs")
    program = native_runs.build(folder, "arm64", ["-O2", "-static"], [compiler])
    assert hashes(native_runs.run(program, before=(emulator,))) == expected


def test_lanes(expected, folder):
    best = headers.march_flags(headers.machine_isas()[0])
    program = native_runs.build(folder, "lanes", ["-O2", *best, "-DSWEEP_LANES_AS_THREADS"])
    for lanes in (1, 2, 3, 4):
        assert hashes(native_runs.run(program, lanes=lanes)) == expected, lanes
