"""The elementary functions: every float there is, the same bits alone, in a vector, on every instruction set."""

import ctypes
import platform
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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
WALKER = Path(__file__).parents[1] / "native" / "math_walk.cpp"
KINDS = ("measured", "constant", "itself", "not_a_number", "at_most_one")  # as in math_walk.cpp
LEAST, TINY, LARGEST, INFINITY = 2.0**-149, 2.0**-126, float(np.finfo(np.float32).max), float("inf")
#: What each function promises of every float: sign, from (itself not included), to, kind, and the value of a constant,
#: or which of the function's lines in the head of math.h holds. Then zeros; NaN gives NaN.
PROMISES = {
    "exp": [("+-", 0, 2**-26, "constant", 1), ("+", 2**-26, 88.37, "measured", 0), ("-", 2**-26, 87.33, "measured", 0),
            ("+", 88.37, INFINITY, "constant", INFINITY), ("-", 87.33, INFINITY, "constant", 0)],
    "sigmoid": [("+-", 0, 2**-26, "constant", 0.5), ("+", 2**-26, 18, "measured", 0), ("-", 2**-26, 87, "measured", 0),
                ("+", 18, INFINITY, "constant", 1), ("-", 87, INFINITY, "constant", 1.6458115e-38)],
    "log": [("+", 0, TINY - LEAST, "constant", -INFINITY), ("+", TINY - LEAST, LARGEST, "measured", 0),
            ("+", LARGEST, INFINITY, "itself", None), ("-", 0, INFINITY, "not_a_number", None)],
    "tanh": [("+-", 0, 2**-13, "itself", None), ("+-", 2**-13, 10, "measured", 0),
             ("+", 10, INFINITY, "constant", 1), ("-", 10, INFINITY, "constant", -1)],
    "sin": [("+-", 0, 2**-13, "itself", None), ("+-", 2**-13, 100, "measured", 0), ("+-", 100, 1e5, "measured", 1),
            ("+-", 1e5, LARGEST, "at_most_one", None), ("+-", LARGEST, INFINITY, "not_a_number", None)],
    "cos": [("+-", 0, 2**-13, "constant", 1), ("+-", 2**-13, 100, "measured", 0), ("+-", 100, 1e5, "measured", 1),
            ("+-", 1e5, LARGEST, "at_most_one", None), ("+-", LARGEST, INFINITY, "not_a_number", None)],
}  # fmt: skip
ZEROS = {"exp": (1, 1), "sigmoid": (0.5, 0.5), "log": (-INFINITY, -INFINITY), "tanh": (0.0, -0.0), "sin": (0.0, 0.0),
         "cos": (1, 1)}  # fmt: skip


class Found(ctypes.Structure):  # as in math_walk.cpp
    _fields_ = [("patterns", ctypes.c_uint64), ("wrong", ctypes.c_uint64), ("units", ctypes.c_double),
                ("worst", ctypes.c_uint32), ("first_wrong", ctypes.c_uint32)]  # fmt: skip


def bits(x):
    return int(np.float32(x).view(np.uint32))


def float_of(pattern):
    return float(np.uint32(pattern).view(np.float32))


def build(folder, name, flags, source=f'#include "math.h"\n{SOURCE}'):
    library = folder / f"{name}.so"
    subprocess.run([*headers.compiler(), *headers.FLAGS, *flags, "-iquote", str(headers.CORE), "-x", "c++", "-", "-o",
                    str(library)], input=source, text=True, check=True)  # fmt: skip
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
def fused():
    """Flags of a build with fused multiply-adds, and whether this processor has them."""
    best = headers.machine_isas()[0]
    has_fma = best in ("x86-64-v3", "x86-64-v4") or platform.machine() in ("aarch64", "arm64")
    return [*headers.march_flags(best), *([] if has_fma else ["-DSWEEP_SCALAR_FMA"])], has_fma


@pytest.fixture(scope="module")
def walker(tmp_path_factory, fused):
    return build(tmp_path_factory.mktemp("walk"), "walk", fused[0], WALKER.read_text())


@pytest.fixture(scope="module")
def floats():
    """Floats of all sizes: random bit patterns (NaN, infinities and denormals among them) and hand-picked ones."""
    patterns = np.random.default_rng(0).integers(0, 2**32, 500_000, dtype=np.uint32)
    special = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-40, -1e-40, 3.4e38, -3.4e38, 88.8, -88.8]
    return np.concatenate([np.array(special, np.float32), patterns.view(np.float32)])


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_of_the_walk_is_right(walker, floats, name):
    quarters = np.float32(np.arange(-60_000, 60_000) * np.pi / 2)
    spread = np.random.default_rng(1).uniform(-87, 87, 300_000).astype(np.float32)
    x = np.concatenate([floats, quarters, spread, spread / 50, spread / 1e5], dtype=np.float32)
    x = x[np.isfinite(x) & (np.abs(x) < 1e5)] if name in ("sin", "cos") else x[np.isfinite(x)]
    x = np.abs(x[np.abs(x) > 1e-37]) if name == "log" else x[np.abs(x) < 89] if name == "exp" else x
    x = np.ascontiguousarray(x[x > -89] if name == "sigmoid" else x, np.float64)
    out = np.empty_like(x)
    getattr(walker, f"reference_{name}_of")(x.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                            ctypes.c_int(len(x)))  # fmt: skip
    np.testing.assert_allclose(out, REFERENCE[name](x), rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", PROMISES)
def test_every_float(walker, fused, name):
    """All 2^32 arguments: the errors are those of the head of math.h to their last digit, every promise is kept."""
    head = re.findall(rf"^//   {name} +(\d\.\d\d) ", (headers.CORE / "math.h").read_text(), re.MULTILINE)
    documented = [float(units) for units in head]
    stride = 1 if fused[1] else 4099  # without the instruction each fma is a function that takes 100 times as long
    chunk = 1 << 26

    def walk(first, last, kind, expected):
        found = Found()
        getattr(walker, f"walk_{name}")(ctypes.c_uint32(first), ctypes.c_uint32(last), ctypes.c_uint32(stride),
                                        KINDS.index(kind), ctypes.c_uint32(expected), ctypes.byref(found))  # fmt: skip
        return found

    patterns, worst, wrong, waiting = 0, {}, [], []
    with ThreadPoolExecutor(2) as threads:
        for signs, above, up_to, kind, value in PROMISES[name]:
            expected = bits(value) if kind == "constant" else 0
            for sign in ("+-".index(sign) << 31 for sign in signs):
                for first in range(bits(above) + 1, bits(up_to) + 1, chunk):
                    last = min(first + chunk - 1, bits(up_to))
                    waiting.append((kind, value, threads.submit(walk, sign | first, sign | last, kind, expected)))
        for zero, value in zip((0, 1 << 31), ZEROS[name], strict=True):
            waiting.append(("constant", value, threads.submit(walk, zero, zero, "constant", bits(value))))
        for sign in (0, 1 << 31):
            nans = sign | bits(INFINITY) + 1, sign | 0x7FFFFFFF
            waiting.append(("not_a_number", None, threads.submit(walk, *nans, "not_a_number", 0)))
        for kind, value, future in waiting:
            found = future.result()
            patterns += found.patterns
            if found.wrong:
                wrong.append(f"{found.wrong} of {kind} {value} near {float_of(found.first_wrong)!r}")
            if kind == "measured":
                worst[value] = max(worst.get(value, (0, 0)), (found.units, float_of(found.worst)))
    assert not wrong
    assert stride > 1 or patterns == 2**32  # nothing was left out, nothing walked twice
    assert sorted(worst) == list(range(len(documented)))
    for line, (units, at) in worst.items():
        assert units <= documented[line], f"{units:.4f} units at {at!r}"
        assert stride > 1 or units > documented[line] - 0.01, f"the head says {documented[line]}; found {units:.4f}"


@pytest.mark.parametrize("name", ["tanh", "sin"])
def test_odd_exactly(library, floats, name):
    numbers = floats[np.abs(floats) < 100_000] if name == "sin" else floats[~np.isnan(floats)]
    np.testing.assert_array_equal(call(library, name, numbers), -call(library, name, -numbers))


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
