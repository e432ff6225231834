"""The environments and the elementary functions compile for a GPU as they stand (sm_90; nothing is run)."""

import shutil
import subprocess

import pytest

from trainer_native import environments, headers

NVCC = ["nvcc", "-std=c++20", "-arch=sm_90", "--fmad=false", "--ftz=false", "-cubin", "-Werror", "all-warnings",
        "-Xcompiler", f"-iquote,{headers.CORE}"]  # fmt: skip

GAME = """
#include "{core}/environment.h"
#include "{core}/math.h"
#include "{source}"
__global__ void play({name}::State* states, {name}::Params params, sweep::Rng* rngs, float* seen, float* rewards,
                     int n) {{
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
#include "{core}/math.h"
__global__ void all(float* x) {{
    float y = x[threadIdx.x];
    x[threadIdx.x] = sweep::exp(y) + sweep::log(y) + sweep::tanh(y) + sweep::sigmoid(y) + sweep::sin(y) + sweep::cos(y);
}}
"""


@pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not on the path")
@pytest.mark.parametrize("name", ["math", "breakout", "cartpole"])
def test_compiles(name, tmp_path):
    source = next((f / f"{name}.h" for f in environments.folders() if (f / f"{name}.h").is_file()), None)
    file = tmp_path / f"{name}.cu"
    file.write_text((MATH if name == "math" else GAME).format(core=headers.CORE, name=name, source=source))
    kernel = tmp_path / "kernel"
    done = subprocess.run([*NVCC, str(file), "-o", str(kernel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert kernel.stat().st_size > 0
