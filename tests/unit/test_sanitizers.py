"""Short whole runs under the address, undefined-behaviour and thread sanitizers: clean, and with the same bits."""

import subprocess

import native_runs
import pytest

import trainer_native
from trainer_native import headers


def working(folder, sanitize):
    """The compiler; skips where it has no such sanitizer, or where programs under it do not run."""
    compiler, probe = headers.compiler(), folder / "probe"
    built = subprocess.run([*compiler, sanitize, "-x", "c++", "-", "-o", str(probe)], input="int main() {}",
                           capture_output=True, text=True, check=False)  # fmt: skip
    if built.returncode or subprocess.run([str(probe)], capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler[0]} has no working {sanitize}")
    return compiler


def build(folder, name, sanitize, *flags):
    """The driver under a sanitizer."""
    working(folder, sanitize)
    best = headers.march_flags(headers.machine_isas()[0])
    return native_runs.build(folder, name, ["-O1", "-g1", *best, sanitize, *flags])


@pytest.fixture(scope="module")
def expected():
    """The hashes of the installed trainer; None where it has no fused multiply-add: the driver may round otherwise."""
    if not trainer_native.build_info()["fma"]:
        return None
    return {name: native_runs.of_module(name) for name in native_runs.RUNS}


def check(lines, expected):
    assert expected is None or {name: line.split()[0] for name, line in lines.items()} == expected


def test_addresses_and_undefined_behaviour(tmp_path, expected):
    """Each array of a run's memory ends at a fence, and holds NaN before it is written."""
    flags = ["-fno-sanitize-recover=all", "-DSWEEP_FENCES"]
    program = build(tmp_path, "addresses", "-fsanitize=address,undefined", *flags)
    check(native_runs.run(program, ASAN_OPTIONS="detect_stack_use_after_return=1"), expected)


def test_lanes_as_threads(tmp_path, expected):
    program = build(tmp_path, "threads", "-fsanitize=thread", "-DSWEEP_LANES_AS_THREADS", "-DSWEEP_NO_VECTORS")
    check(native_runs.run(program, lanes=3, TSAN_OPTIONS="halt_on_error=1"), expected)


OUT_OF_BOUNDS = """
#include "rollout.h"
alignas(64) char memory[4096];
int main(int count, char**) {
    sweep::Arena arena = {memory};
    float* first = arena.take<float>(15);
    arena.take<float>(16);
    first[14 + count] = 1.0f;
}
"""
UNSYNCHRONISED = """
#include "device.h"
int main() {
    sweep::lanes_of_a_block = 2;
    int shared[2] = {}, seen[2];
    sweep::on_lanes([&](sweep::Block b) {
        shared[b.lane] = 1;
        seen[b.lane] = shared[1 - b.lane];
        b.sync();
    });
    return seen[0] + seen[1] > 2;
}
"""


@pytest.mark.parametrize(
    ("source", "flags", "complaint"),
    [
        (OUT_OF_BOUNDS, ["-fsanitize=address", "-DSWEEP_FENCES"], "use-after-poison"),
        (UNSYNCHRONISED, ["-fsanitize=thread", "-DSWEEP_LANES_AS_THREADS"], "data race"),
    ],
)
def test_what_is_wrong_is_seen(tmp_path, source, flags, complaint):
    compiler = working(tmp_path, flags[0])
    program = tmp_path / "wrong"
    subprocess.run([*compiler, "-std=c++20", *flags, "-iquote", str(headers.CORE), "-pthread", "-x", "c++", "-", "-o",
                    str(program)], input=source, text=True, check=True)  # fmt: skip
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and complaint in done.stderr
