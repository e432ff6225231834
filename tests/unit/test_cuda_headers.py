"""All that is written once for CPU and GPU compiles for a GPU as it stands (sm_90; nothing is run)."""

import shutil
import subprocess

import pytest

from trainer_native import environments, headers

EXACT = ["-std=c++20", "-arch=sm_90", "--fmad=false", "--ftz=false"]
GAME = """
#include "environment.h"
#include "math.h"
#include "{source}"
extern "C" __global__ void play({name}::State* states, {name}::Params params, sweep::Rng* rngs, float* seen,
                                float* rewards, int n) {{
    sweep::Block block = {{static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)}};
    for (int i = block.lane; i < n; i += block.lanes) {{
        sweep::Outcome outcome = {name}::step(states[i], params, rngs[i].below({name}::actions), rngs[i]);
        {name}::observe(states[i], params, seen + i * {name}::observation_size);
        if (outcome.terminated || outcome.truncated) {name}::reset(states[i], params, rngs[i]);
        sweep::Input input = {name}::input(i % {name}::observation_size);
        rewards[i] = outcome.reward + input.low;
        block.sync();
    }}
}}
"""
MATH = """
#include "math.h"
extern "C" __global__ void all(float* x) {
    float y = x[threadIdx.x];
    x[threadIdx.x] = sweep::exp(y) + sweep::log(y) + sweep::tanh(y) + sweep::sigmoid(y) + sweep::sin(y) + sweep::cos(y);
}
"""
#: Rollout, update and evaluation, with every cell, loss and optimizer.
TRAINER = """
#include "initialise.h"
#include "solve.h"
#include "update.h"
extern "C" __global__ void train(sweep::Player player, sweep::UpdateOptions o, float* weights, sweep::Rollout rollout,
                                 sweep::Activations room, sweep::RecentEpisodes recent, sweep::UpdateRoom update_room,
                                 sweep::EvaluationRoom evaluation, sweep::Rng* rng, float* returns) {
    const sweep::Block b = {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)};
    const auto never = [] { return false; };
    if (b.lane == 0) sweep::initialise(player.shape, weights, *rng, true, 0.01f, 0.0f);
    sweep::set_normaliser_by_bounds(b, player, true);
    sweep::play(b, player, weights, o.envs, o.steps, rollout, room, recent, never);
    sweep::update(b, player.shape, o, weights, rollout, update_room, *rng, never);
    sweep::merge_moments(b, player);
    sweep::evaluate(b, player, weights, 1, false, evaluation, returns, returns, never);
}
"""


def with_nvcc(source, folder):
    if not shutil.which("nvcc"):
        pytest.skip("nvcc is not on the path")
    # Every function of the trainer is the device's: NVRTC has an option for it, nvcc has to be told by the word.
    (folder / "kernel.cu").write_text(f"#define inline __device__ inline\n{source}")
    # iquote, since our math.h must not be found in place of C's; -G, since optimising all of it takes minutes.
    done = subprocess.run(["nvcc", *EXACT, "-cubin", "-G", "-diag-suppress=161", "-Werror", "all-warnings", "-Xcompiler",
                           f"-iquote,{headers.CORE}", str(folder / "kernel.cu"), "-o", str(folder / "kernel")],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (folder / "kernel").read_bytes()


def with_nvrtc(source, _folder):
    """As the GPU's part is meant to be compiled: at run time, every function taken for the device's."""
    nvrtc = pytest.importorskip("cupy.cuda", reason="CuPy is not installed (pip install '.[gpu]')").nvrtc
    try:
        program = nvrtc.createProgram(source, "kernel.cu", (), ())
    except RuntimeError as error:
        pytest.skip(f"CuPy finds no NVRTC: {error}")
    try:
        nvrtc.compileProgram(program, (*EXACT, "-G", "-diag-suppress=161", "--device-as-default-execution-space",
                                       f"-I{headers.CORE}"))  # fmt: skip
    except nvrtc.NVRTCError:
        pytest.fail(nvrtc.getProgramLog(program)[:4000])
    assert "warning" not in nvrtc.getProgramLog(program)
    return nvrtc.getCUBIN(program)


@pytest.mark.parametrize("compile", [with_nvcc, with_nvrtc])
@pytest.mark.parametrize("name", ["math", "breakout", "cartpole", "trainer"])
def test_compiles(name, compile, tmp_path):
    source = next((f / f"{name}.h" for f in environments.folders() if (f / f"{name}.h").is_file()), None)
    text = {"math": MATH, "trainer": TRAINER}.get(name) or GAME.format(name=name, source=source)
    assert compile(text, tmp_path)[:4] == b"\x7fELF"


@pytest.mark.parametrize("compile", [with_nvcc, with_nvrtc])
def test_what_only_a_cpu_has_does_not(compile, tmp_path):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        compile(MATH.replace("sweep::exp(y)", "__builtin_ia32_sqrtps(y)"), tmp_path)
