"""`sweep check`: each planted fault is found, with the line that has it, and a header without one is not blamed."""

import json
import math
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from sweep import check, cli
from trainer_native import fuzz, headers

GOOD = """// Walk: a step left or right on a line of 40 cells, or none; 30 steps make an episode.
#pragma once
#include "environment.h"

namespace walk {

constexpr int observation_size = 3, actions = 3, longest_episode = 30, width = 40;

struct State {
    int at;        // its cell
    float wind;    // cells per env step
    int steps;     // env steps of this episode
    int seen[4];   // times that each quarter was entered
    sweep::uint8 last;
};
struct Params {
    int stride = 1;   // cells
};
constexpr sweep::Bounds bounds[] = {{1, 3}};

SWEEP_FN constexpr sweep::Input input(int i) {
    return i == 0 ? sweep::quantity(0, width - 1) : i == 1 ? sweep::quantity(0.0f, 1.0f) : sweep::flag();
}
SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) {
    s.at = rng.below(width);
    s.wind = 1.0f;
    s.steps = 0;
    for (int i = 0; i < 4; i++) s.seen[i] = 0;
    s.last = 0;
}
SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng& rng) {
    s.at += (action - 1) * p.stride;
    s.at = s.at < 0 ? 0 : s.at > width - 1 ? width - 1 : s.at;
    s.seen[s.at / 10]++;
    s.steps++;
    return {s.at == 0 ? 1.0f : 0.0f, false, s.steps >= longest_episode};
}
SWEEP_FN void observe(const State& s, const Params& p, float* observation) {
    observation[0] = s.at;
    observation[1] = s.wind;
    observation[2] = s.steps % 2;
}

}  // namespace walk
"""
STEP = "    s.steps++;\n"
OBSERVE = "    observation[2] = s.steps % 2;\n"
RESET = "    s.last = 0;\n"
LONG = [("longest_episode = 30", "longest_episode = 2000")]

OUTSIDE = [(OBSERVE, "    for (int i = 2; i < 3 + (s.steps == 29); i++) observation[i] = s.steps % 2;\n")]
NOT_A_NUMBER = [*LONG, (STEP, STEP + "    if (s.steps > 1000) s.wind = (s.wind - 1.0f) / (s.wind - 1.0f);\n")]
ENDLESS = [("s.steps >= longest_episode", "s.steps == -1")]
COUNTER = [("SWEEP_FN void reset", "static int counter = 0;\nSWEEP_FN void reset"), (RESET, "    s.last = 0;\n    s.at = (s.at + counter++) % width;\n")]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SWEEP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """What `check` finds in the walk with these changes."""
    monkeypatch.chdir(tmp_path)

    def run(changes=(), env_steps=20_000):
        text = GOOD
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        Path("walk.h").write_text(text)
        found = check.check("walk.h", env_steps, seed=0)
        if not found["sanitizers"]:
            pytest.skip("this compiler has no working sanitizers")
        return found

    return run


def line_of(changes, text):
    """The line of the changed walk that holds `text`."""
    whole = GOOD
    for old, new in changes:
        whole = whole.replace(old, new, 1)
    return f"walk.h:{whole[: whole.index(text)].count(chr(10)) + 1}"


def test_a_good_header(checked):
    found = checked()
    assert found["faults"] == [] and found["warnings"] == []
    first, second, third = found["inputs"]
    assert (first["lowest"], first["highest"], first["constant"]) == (0, 39, False) and 5 < first["deviation"] < 15
    assert (second["mean"], second["deviation"], second["constant"]) == (1, 0, True)
    assert third["flag"] and third["mean"] == pytest.approx(15 / 31, abs=0.01)
    episodes = found["episodes"]
    assert episodes["shortest"] == episodes["median_length"] == episodes["longest"] == 30
    assert (episodes["terminated"], episodes["truncated"]) == (0, 1) and 0.01 < episodes["rewarded"] < 0.1
    assert episodes["mean_return"] == pytest.approx(30 * episodes["rewarded"], rel=0.02)
    assert found["env_steps_per_cpu_second"] > 1e5
    again = checked()
    assert {**again, "env_steps_per_cpu_second": 0} == {**found, "env_steps_per_cpu_second": 0}


FAULTS = {
    "outside": (OUTSIDE, "observe writes observation[3] after 29 env steps of an episode; observation_size is 3", "observation[i] ="),
    "not a number": (NOT_A_NUMBER, "step makes State.wind not a number after 1,001 env steps of an episode", "s.wind = (s.wind"),
    "endless": (ENDLESS, "an episode goes on after longest_episode, 30 env steps", "SWEEP_FN sweep::Outcome step"),
    "a static counter": (COUNTER, "observation[0] is another at the reset (`static int counter = 0;` outlives a call)", "static int counter"),
    "copies": ([("SWEEP_FN void reset", "int others = 0;\nSWEEP_FN void reset"), (RESET, RESET + "    others = 0;\n"),
                (STEP, STEP + "    s.last = others++ % 2;\n"), (OBSERVE, "    observation[2] = s.last;\n")],
               "copies influence each other: observation[2] is another after", "int others"),
    "unset": ([("    s.wind = 1.0f;\n", "")], "reset does not set State.wind, and observation[1] depends on it at the reset",
              "SWEEP_FN void reset"),
    "unset, of which one bit counts": ([(RESET, ""), ("s.at == 0 ? 1.0f", "(s.last & 1) != 0 ? 1.0f")],
                                       "reset does not set State.last, and the reward depends on it", "SWEEP_FN void reset"),
    "unset, of which another bit counts": ([(RESET, ""), ("s.at == 0 ? 1.0f", "(s.last & 8) != 0 ? 1.0f")],
                                           "reset does not set State.last, and the reward depends on it", "SWEEP_FN void reset"),
    "local": ([(STEP, STEP + "    int gust;\n    if (s.steps > 90) gust = 0;\n    s.at = (s.at + gust % 3 + 3) % width;\n")],
              "another build of the same code plays otherwise", None),
    "unwritten": ([(OBSERVE, "    if (s.steps < 20) observation[2] = 0.0f;\n")],
                  "observe leaves observation[2] unwritten after 20 env steps", "SWEEP_FN void observe"),
    "reads": ([(OBSERVE, "    observation[2] = 0.0f;\n    observation[1] += 1.0f;\n"), ("    observation[1] = s.wind;\n", "")],
              "observation[1] depends on what stood there before", "SWEEP_FN void observe"),
    "flag": ([(OBSERVE, "    observation[2] = s.steps == 7 ? 0.5f : 0.0f;\n")],
             "observation[2] is 0.5 after 7 env steps of an episode, and input(2) says it is a flag", "SWEEP_FN void observe"),
    "infinite with params": ([("s.at == 0 ? 1.0f", "p.stride == 3 ? 1.0f / static_cast<float>(s.steps - 9)")],
                             "the reward is infinite after 9 env steps of an episode, with stride 3", None),
    "index": ([("s.at / 10", "(s.at + 1) / 10")], "index 4 out of bounds for type 'int [4]': legal are indexes 0 to 3", "s.seen[(s.at"),
    "beyond State": ([("s.seen[s.at / 10]++;", "int* at = s.seen; at[s.at / 6]++;")], "step writes behind State", "int* at"),
    "cast": ([(STEP, STEP + "    s.last = static_cast<int>(1e10f * s.at) % 2;\n")], "representable values of type 'int': clamp it before the cast", "static_cast<int>(1e10f"),
    "divided": ([(STEP, STEP + "    s.at = s.at / ((s.steps - 9) % 11 == 0 ? 0 : 1);\n")], "undefined behaviour: division by zero", "s.at = s.at /"),
    "nowhere": ([(STEP, STEP + "    if (s.steps == 9) *reinterpret_cast<volatile int*>(p.stride * 8ull) = 1;\n")],
                "it reads or writes memory that is not there", "reinterpret_cast"),
    "exit": ([(STEP, STEP + "    if (s.steps == 9) __builtin_exit(0);\n")], "it ended its process (exit status 0)", None),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault(checked, name):
    changes, what, text = FAULTS[name]
    found = checked(changes)
    told = [f"{fault['what']}: {fault['do']}" for fault in found["faults"]]
    assert len(told) == 1 and what in told[0], told
    if text:
        assert found["faults"][0]["where"] == line_of(changes, text)


def test_three_faults_at_once(checked):
    """Out of bounds, not a number after 1,000 env steps, and an episode that never ends, in one header."""
    changes = [*NOT_A_NUMBER, *OUTSIDE, *ENDLESS]
    told = [fault["what"] for fault in checked(changes)["faults"]]
    assert len(told) == 3
    for part in ("State.wind not a number after 1,001", "writes observation[3] after 29", "goes on after longest_episode"):
        assert any(part in what for what in told), part


WARNINGS = {
    "range": ([("quantity(0, width - 1)", "quantity(0, width - 3)")], "input 0 leaves its bounds 0 to 37.0: 39.0 at the farthest, in "),
    "range with params": ([("? width - 1 : s.at;", "? (p.stride == 3 ? 39 + s.steps % 2 : 39) : s.at;"), ("s.at / 10", "s.at % 4")],
                          "input 0 leaves its bounds 0 to 39.0 with other params: 40.0 at the farthest"),
    "quietly unset": ([("    s.last = 0;\n", "")], "reset does not set State.last; nothing that is seen depended on it"),
    "after the end": ([(STEP, STEP + "    s.seen[s.steps > longest_episode ? 4 : 0]++;\n")],
                      "stepped on after an episode's end: undefined behaviour: index 4 out of bounds"),
    "both": ([("false, s.steps >=", "s.steps == 30, s.steps >=")], "step says terminated and truncated at once after 30 env steps"),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning(checked, name):
    changes, what = WARNINGS[name]
    found = checked(changes)
    assert found["faults"] == []
    assert len(found["warnings"]) == 1 and found["warnings"][0]["what"].startswith(what)


ROW = "constexpr sweep::Image image = {1, 1, 3};\nconstexpr int observation_size"
BYTES = [("float* observation", "sweep::uint8* observation"), ("constexpr int observation_size", ROW)]
SEVERAL = [(", actions = 3", ""), ("struct State", "constexpr int actions[] = {3, 2};\nstruct State"), ("int action,", "const int* action,"),
           ("(action - 1)", "(action[0] - 1) * (1 + action[1])")]  # fmt: skip
CONTINUOUS = [(", actions = 3", ""), ("struct State", "constexpr sweep::Bounds actions[] = {{-2, 0.5}};\nstruct State"),
              ("int action,", "const float* action,"), ("(action - 1)", "static_cast<int>(4.0f * action[0])")]  # fmt: skip
METRIC = [("SWEEP_FN void observe", "SWEEP_FN float metric(const State& s, const Params&) { return s.at / 39.0f; }\nSWEEP_FN void observe")]


@pytest.mark.parametrize(
    ("changes", "wrong", "what"),
    [
        (BYTES, [(OBSERVE, OBSERVE + "    if (s.steps == 4) observation[3] = 0;\n")], "observe writes observation[3] after 4 env steps"),
        (SEVERAL, [("s.seen[s.at / 10]", "s.seen[s.at / 10 + (action[1] > 0 ? 1 : 0)]")], "index 4 out of bounds"),
        (CONTINUOUS, [("s.seen[s.at / 10]", "s.seen[action[0] < -1.99f ? -1 : 0]")], "index -1 out of bounds"),
        (METRIC, [("s.at / 39.0f", "s.at / 30.0f")], "metric gives 1."),
    ],
    ids=["bytes", "several", "continuous", "metric"],
)
def test_every_kind_of_header(checked, changes, wrong, what):
    found = checked(changes)
    assert found["faults"] == [] and found["warnings"] == []
    assert (found["episodes"]["mean_metric"] > 0.1) if changes is METRIC else math.isnan(found["episodes"]["mean_metric"])
    assert ("channel 2" in check.text(found)) == (changes is BYTES)
    (fault,) = checked([*changes, *wrong])["faults"]
    assert what in fault["what"]


def test_bounds_that_are_typical(checked):
    """Who says so may leave them."""
    found = checked([("i == 0 ? sweep::quantity(0, width - 1)", "i == 0 ? sweep::typical(0, width - 3)")])
    assert found["warnings"] == [] and found["inputs"][0]["open"] and found["inputs"][0]["highest"] == 39


def test_a_call_that_does_not_return(checked, monkeypatch):
    monkeypatch.setattr(fuzz, "HANG_SECONDS", 2)
    changes = [(STEP, STEP + "    while (s.steps == 9 && s.at >= 0) s.last ^= 1;\n")]
    (fault,) = checked(changes)["faults"]
    assert fault["what"].startswith("step did not return within 2 CPU seconds")
    assert fault["where"] == line_of(changes, "while (s.steps")


def test_without_sanitizers(checked, monkeypatch):
    """What the guards see needs none; that the rest was not looked for is said."""
    monkeypatch.setattr(fuzz, "_SANITIZE", ["-fsanitize=nothing-of-that-name"])
    with pytest.raises(pytest.skip.Exception):
        checked(OUTSIDE)
    found = check.check("walk.h", 20_000, seed=0)
    assert [fault["what"] for fault in found["faults"]] == [FAULTS["outside"][1]]
    assert "played without sanitizers" in found["warnings"][0]["what"]


def test_at_the_command_line(checked):
    def call(*arguments):
        return CliRunner().invoke(cli.cli, ["check", "walk.h", "--steps", "20000", *arguments])

    checked()
    good = call()
    assert good.exit_code == 0 and "walk: no fault found in 20,000 env steps" in good.stdout
    assert all(len(line) <= 80 for line in good.stdout.splitlines())
    checked(ENDLESS)
    bad = call()
    assert bad.exit_code == 2
    assert bad.stdout.splitlines()[0] == ("fault: walk.h:31: an episode goes on after longest_episode, 30 env steps: return terminated "
                                          "or truncated by then, or raise longest_episode")  # fmt: skip
    listed = json.loads(call("--json").stdout)
    assert listed["faults"][0]["where"] == "walk.h:31" and listed["environment"]["observation_size"] == 3


def test_a_compile_error_is_shown_as_the_compiler_gave_it(checked):
    with pytest.raises(headers.HeaderError, match=r"walk\.h:35: .*stepz") as error:
        checked([(STEP, "    s.stepz++;\n")])
    assert "s.stepz++;" in error.value.__notes__[0]


def test_bounds_the_wrong_way_round(checked):
    with pytest.raises(headers.HeaderError, match=r"the bounds of each input begin with the lowest value"):
        checked([("sweep::quantity(0, width - 1)", "sweep::quantity(width - 1, 0)")])


def test_a_compiler_that_fails_leaves_nothing_behind(checked, monkeypatch, tmp_path):
    """It is said in a line, and the next compiler is not served what the broken one left."""
    monkeypatch.setenv("SWEEP_CACHE", str(tmp_path / "kept"))
    with monkeypatch.context() as broken:
        broken.setenv("CXX", "/bin/false")
        with pytest.raises(headers.HeaderError, match="/bin/false ended with exit status 1 and said nothing: is it a C"):
            checked(env_steps=1000)
        assert not list((tmp_path / "kept").iterdir())
    assert not checked(env_steps=1000)["faults"]


def test_a_compiler_that_takes_too_long_ends_with_all_it_started(monkeypatch, tmp_path):
    compiler = tmp_path / "slow"
    compiler.write_text(f"#!/bin/sh\nsleep 60 & echo $! > {tmp_path}/child\nwait\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(subprocess.TimeoutExpired):
        headers.run_compiler([], seconds=1.0)
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    deadline = time.monotonic() + 10
    while child.exists() and child.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not child.exists() or child.read_text().split()[2] == "Z"
