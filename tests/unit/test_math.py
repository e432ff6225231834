"""The elementary functions: accuracy, exact facts, the same bits alone, in a vector, on every instruction set."""

import ctypes
import subprocess

import numpy as np
import pytest

from trainer_native import headers

REFERENCE = {"exp": np.exp, "log": np.log, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
             "sigmoid": lambda x: 1 / (1 + np.exp(-x))}  # fmt: skip
SOURCE = "".join(f"""
extern "C" __attribute__((visibility("default")))
void {name}(const float* __restrict in, float* __restrict out, int n) {{
    for (int i = 0; i < n; i++) out[i] = sweep::{name}(in[i]);
}}
extern "C" __attribute__((visibility("default")))
void {name}_alone(const float* in, float* out, int n) {{
    for (int i = 0; i < n; i++) {{ volatile float x = in[i]; out[i] = sweep::{name}(x); }}
}}""" for name in REFERENCE)  # fmt: skip
# name: lowest and highest argument, largest error in units in the last place
ACCURACY = {"exp": (-87.3, 88.3, 2), "log": (2e-38, 3e38, 2), "tanh": (-1e30, 1e30, 4), "sigmoid": (-86.9, 86.9, 4),
            "sin": (-100, 100, 2), "cos": (-100, 100, 2)}  # fmt: skip


def build(folder, name, flags):
    library = folder / f"{name}.so"
    subprocess.run([*headers.compiler(), *headers.FLAGS, *flags, "-iquote", str(headers.CORE), "-x", "c++", "-", "-o",
                    str(library)], input=f'#include "math.h"\n{SOURCE}', text=True, check=True)  # fmt: skip
    return ctypes.CDLL(str(library))


def call(library, name, x):
    x = np.ascontiguousarray(x, np.float32)
    out = np.empty_like(x)
    getattr(library, name)(x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(len(x)))
    return out


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("math"), "best", headers.march_flags(headers.machine_isas()[0]))


@pytest.fixture(scope="module")
def floats():
    """Floats of all sizes: random bit patterns (NaN, infinities and denormals among them) and hand-picked ones."""
    bits = np.random.default_rng(0).integers(0, 2**32, 500_000, dtype=np.uint32)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-40, -1e-40, 3.4e38, -3.4e38, 88.8, -88.8]
    return np.concatenate([np.array(special, np.float32), bits.view(np.float32)])


@pytest.mark.parametrize("name", REFERENCE)
def test_accuracy(library, floats, name):
    low, high, allowed = ACCURACY[name]
    rng = np.random.default_rng(1)
    quarters = np.float32(np.arange(-64, 65) * np.pi / 2)
    near_zeros = [np.nextafter(quarters, np.float32(side)) for side in (-1e9, 1e9)]
    spread = [rng.uniform(low, min(high, 1e4), 300_000), rng.uniform(max(low, -2), 2, 300_000)]
    x = np.concatenate([floats, quarters, *near_zeros, *(part.astype(np.float32) for part in spread)])
    x = x[(x >= low) & (x <= high) & ((np.abs(x) > 1e-36) | (name == "log"))]
    expected = REFERENCE[name](x.astype(np.float64))
    unit = np.spacing(np.abs(expected).astype(np.float32)).astype(np.float64)
    error = np.abs(call(library, name, x) - expected) / unit
    assert error.max() <= allowed, f"at {x[error.argmax()]!r}"


def test_exact_facts(library, floats):
    def value(name, x):
        return call(library, name, [x])[0]

    assert value("exp", 0) == value("exp", -0.0) == 1
    assert value("exp", -np.inf) == value("exp", -1000) == 0 and value("exp", 1000) == value("exp", np.inf) == np.inf
    assert value("log", 1) == 0 and value("log", 0) == -np.inf and value("log", np.inf) == np.inf
    assert np.isnan(value("log", -1)) and np.isnan(value("log", -np.inf))
    assert value("sigmoid", 0) == 0.5 and value("sigmoid", np.inf) == value("sigmoid", 50) == 1
    assert 0 <= value("sigmoid", -np.inf) < 2e-38
    assert value("tanh", np.inf) == 1 and value("tanh", -np.inf) == -1
    assert value("sin", 0) == 0 and value("cos", 0) == 1 and np.isnan(value("sin", np.inf))
    numbers = floats[~np.isnan(floats)]
    sigmoid, tanh = call(library, "sigmoid", numbers), call(library, "tanh", numbers)
    assert sigmoid.min() >= 0 and sigmoid.max() <= 1
    np.testing.assert_array_equal(tanh, -call(library, "tanh", -numbers))
    assert np.abs(tanh).max() <= 1
    finite = floats[np.isfinite(floats)]
    for name in ("sin", "cos"):
        assert np.abs(call(library, name, finite)).max() <= 1


@pytest.mark.parametrize("name", REFERENCE)
def test_nan_comes_from_nan_alone(library, floats, name):
    expected = np.isnan(floats)
    if name == "log":
        expected |= floats < -1.2e-38
    elif name in ("sin", "cos"):
        expected |= np.isinf(floats)
    decided = (np.abs(floats) > 1.2e-38) | (name != "log") | np.isnan(floats)  # a negative denormal may count as zero
    np.testing.assert_array_equal(np.isnan(call(library, name, floats))[decided], expected[decided])


@pytest.mark.parametrize("name", ["exp", "sigmoid", "cos", "log"])
def test_no_denormals_come_out(library, floats, name):
    out = np.abs(call(library, name, floats))
    assert not ((out > 0) & (out < np.finfo(np.float32).tiny)).any()


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "log"])
def test_monotone_at_the_scale_of_its_error(library, name):
    x = np.linspace(0.01 if name == "log" else -20, 20, 200_001, dtype=np.float32)
    y = call(library, name, x).astype(np.float64)
    assert (np.diff(y) >= -4 * np.spacing(np.abs(y[1:]).astype(np.float32))).all()


def test_alone_and_in_a_vector_the_bits_are_the_same(library, floats):
    for name in REFERENCE:
        together, alone = call(library, name, floats), call(library, f"{name}_alone", floats)
        np.testing.assert_array_equal(together, alone, err_msg=name)
        for n in (1, 3, 7, 9, 17):  # the remainder of a vector loop
            np.testing.assert_array_equal(call(library, name, floats[:n]), together[:n])


def test_every_instruction_set_gives_the_same_bits(library, floats, tmp_path):
    isas = headers.machine_isas()
    if "x86-64-v3" not in isas:
        pytest.skip("this processor has no second instruction set with fused multiply-add")
    # Narrow vectors and a called fma, then those between this processor's best and that.
    narrow = ["-march=x86-64-v2", "-DSWEEP_SCALAR_FMA"]
    for i, flags in enumerate([narrow, *(headers.march_flags(isa) for isa in isas[1:-1])]):
        other = build(tmp_path, f"other{i}", flags)
        for name in REFERENCE:
            np.testing.assert_array_equal(call(other, name, floats[:50_000]), call(library, name, floats[:50_000]))
