"""Environments: found by name or path, read from their headers, compiled, stepped; and each mistake in one line."""

import ctypes
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sweep import cli, doctor
from trainer_native import environments, headers, probe
from trainer_native.config import ConfigError
from trainer_native.environments import HeaderError, find, initial_state, transition

SHIPPED = [path.stem for path in (Path(__file__).parents[2] / "envs").glob("*.h")]

CATCH = """// Catch: a ball falls, a paddle on a line meets it.
#pragma once
#include "environment.h"

namespace catch_ball {

constexpr int observation_size = 3, actions = 3, longest_episode = 20;

struct State {
    int ball_x, paddle_x;   // cells
    float height /* cells above the line */, drift = 0.5f;
    sweep::uint8 seen[2][3];  // flags; flattened
    bool fast{false};
};
struct Params {
    int width = 8;      // cells
    double wind = 0.1;  // cells per env step
    bool slippery = false;  // the paddle slides
};
constexpr sweep::Bounds bounds[] = {{2, 64}, {0, 1}, {0, 1}};

SWEEP_FN constexpr sweep::Input input(int i) { return i == 2 ? sweep::flag() : sweep::quantity(0.0f, 64.0f); }

SWEEP_FN void reset(State& s, const Params& p, sweep::Rng& rng) {
    s = {};
    s.ball_x = rng.below(p.width);
    s.paddle_x = p.width / 2;
    s.height = 5.0f;
}
SWEEP_FN sweep::Outcome step(State& s, const Params& p, int action, sweep::Rng&) {
    s.paddle_x += action - 1;
    s.height -= 1.0f;
    s.seen[1][2] = 1;
    const bool landed = s.height <= 0.0f;
    return {landed && s.paddle_x == s.ball_x ? static_cast<float>(p.width) : 0.0f, landed, false};
}
SWEEP_FN void observe(const State& s, const Params& p, float* observation) {
    observation[0] = static_cast<float>(s.ball_x);
    observation[1] = static_cast<float>(s.paddle_x);
    observation[2] = p.slippery ? 1.0f : 0.0f;
}

}  // namespace catch_ball
"""


@pytest.fixture(scope="session")
def library_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, library_cache):
    """An empty working directory with catch_ball.h in envs/, and a cache of its own."""
    monkeypatch.setenv("SWEEP_CACHE", str(library_cache))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "catch_ball.h").write_text(CATCH)
    return tmp_path


def changed(folder, old, new, count=1):
    """Catch with one thing changed."""
    assert old in CATCH
    path = folder / "envs" / "catch_ball.h"
    path.write_text(CATCH.replace(old, new, count))
    return path


def complaint(env):
    with pytest.raises(HeaderError) as error:
        find(env)
    message = str(error.value)
    assert "\n" not in message
    return message


# -- what is found ---------------------------------------------------------------------------------------------


def test_a_users_header_is_found_and_read(folder):
    env = find("catch_ball")
    assert (env.name, env.source) == ("catch_ball", (folder / "envs" / "catch_ball.h").resolve())
    assert (env.observation_size, env.actions, env.longest_episode) == (3, 3, 20)
    assert env.state_dtype.names == ("ball_x", "paddle_x", "height", "drift", "seen", "fast")
    assert env.state_dtype["seen"].shape == (6,) and env.state_dtype["fast"] == np.bool_
    assert list(env.params) == ["width", "wind", "slippery"]
    width, wind, slippery = env.params.values()
    assert (width.default, width.low, width.high, width.what, width.table) == (8, 2, 64, "cells", "environment")
    assert (wind.default, wind.kind, wind.what) == (0.1, float, "cells per env step")
    assert (slippery.default, slippery.kind) == (False, bool)
    assert env.inputs["is_flag"].tolist() == [False, False, True] and env.inputs["high"].tolist() == [64, 64, 1]


def test_names_and_the_order_of_search(folder):
    assert environments.names() == sorted([*SHIPPED, "catch_ball"])
    shipped = find("breakout").source
    (folder / "envs" / "breakout.h").write_text(shipped.read_text())
    assert find("breakout").source == (folder / "envs" / "breakout.h").resolve()
    assert find(shipped).source == find(str(shipped)).source == shipped
    assert find("breakout").source_hash == find(shipped).source_hash


def test_the_hash_follows_the_text(folder):
    first = find("catch_ball").source_hash
    assert find("catch_ball").source_hash == first and len(first) == 64
    changed(folder, "height = 5.0f", "height = 6.0f")
    env = find("catch_ball")
    assert env.source_hash != first
    assert initial_state(env)["height"] == 6  # compiled anew


def test_what_a_header_includes_belongs_to_it(folder):
    changed(folder, '#include "environment.h"', '#include "environment.h"\n#include "rules.h"')
    (folder / "envs" / "rules.h").write_text("#pragma once\nconstexpr int rules = 1;\n")
    first = find("catch_ball").source_hash
    (folder / "envs" / "rules.h").write_text("#pragma once\nconstexpr int rules = 2;\n")
    assert find("catch_ball").source_hash != first


def test_params_reach_the_game():
    state = initial_state("catch_ball", width=20)
    assert state["paddle_x"] == 10
    state["height"], state["ball_x"] = 1, 11
    after, reward, terminated, truncated, observation = transition("catch_ball", state, 2, width=20, slippery=True)
    assert (reward, terminated, truncated) == (20.0, True, False)
    assert observation.tolist() == [11, 11, 1]  # the last of the episode that ended
    assert after["height"] == 5 and after["paddle_x"] == 10  # the first of the next one
    assert state["height"] == 1  # left as it was
    env = find("catch_ball")
    filled = np.frombuffer(env.param_bytes({"width": 9, "hidden": 16}), env.params_dtype)[0]
    assert filled.tolist() == (9, 0.1, False)


def test_the_seed_decides():
    starts = [int(initial_state("catch_ball", seed, width=64)["ball_x"]) for seed in range(64)]
    assert starts == [int(initial_state("catch_ball", seed, width=64)["ball_x"]) for seed in range(64)]
    assert len(set(starts)) > 20


def test_an_environment_travels_to_another_process():
    env = find("catch_ball")
    again = pickle.loads(pickle.dumps(env))
    assert again.source_hash == env.source_hash and again.state_dtype == env.state_dtype


def test_processes_compile_the_same_header_at_once(folder, monkeypatch):
    cache = folder / "cache"
    monkeypatch.setenv("SWEEP_CACHE", str(cache))
    code = "from trainer_native import environments; print(environments.find('catch_ball').actions)"
    root = Path(environments.__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", str(root))
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0].strip() for process in running] == ["3"] * 3
    assert len(list(cache.iterdir())) == 1  # one library, nothing half-written left behind


# -- mistakes --------------------------------------------------------------------------------------------------


def test_unknown_names():
    assert complaint("breakot") == (
        f"'breakot' is not an environment. Did you mean 'breakout'? There are: {', '.join(sorted([*SHIPPED, 'catch_ball']))}; "
        "or give the path of a header, ending in .h"
    )
    assert complaint("nowhere/game.h") == "nowhere/game.h: there is no such file"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("s.height -= 1.0f;", "s.hight -= 1.0f;", "catch_ball.h:32: "),
        ("observe(const State", "look(const State", "has no `observe`"),
        ("sweep::Outcome step(", "sweep::Outcome play(", "has no `step`"),
        ("observation_size = 3", "observation_size = 0", "observation_size must be at least 1"),
        ("{{2, 64}, {0, 1}, {0, 1}}", "{{2, 64}}", "bounds must list one {low, high} for each field of Params"),
        ("{{2, 64},", "{{9, 64},", "'width' of Params has the default 8, outside its bounds 9 to 64"),
        ("int width = 8;", "int width = 8, lanes = 2;", "bounds must list one {low, high}"),
        ("double wind = 0.1;", "double wind[2] = {0.1, 0.2};", "'wind' of Params is an array"),
        ("double wind = 0.1;", "double gamma = 0.1;", "'gamma' of Params has the name of a hyperparameter"),
        ("namespace catch_ball {", "namespace ball {", "there is no namespace 'catch_ball'"),
        ("struct Params {", "struct Parameters {", "there is no `struct Params {...}`"),
        ("bool fast{false};", "float* fast;", "catch_ball.h:13: struct State holds plain fields only"),
        ("bool fast{false};", "void move() { height = 1; }", "catch_ball.h:13: struct State holds plain fields only"),
        ("bool fast{false};", "static int fast;", "catch_ball.h:13: struct State holds plain fields only"),
        ("bool fast{false};", "short fast;", "a field of State or Params is a number"),
        ("bool fast{false};", "struct Own { int i; ~Own() {} };", "struct State holds plain fields only"),
    ],
)
def test_mistakes_in_a_header(folder, old, new, expected):
    changed(folder, old, new)
    message = complaint("catch_ball")
    assert expected in message and "catch_ball.h" in message


def test_what_does_not_fit_names_their_line_and_what_is_legal(folder):
    path = changed(folder, "observe(const State& s, const Params& p", "observe(State& s, const Params& p")
    assert complaint("catch_ball").startswith(f"{path}:37: `observe` does not fit: ")
    assert complaint("catch_ball").endswith("legal is `SWEEP_FN void observe(const State&, const Params&, float* observation)`")
    changed(folder, "}  // namespace catch_ball", "")
    assert complaint("catch_ball").startswith(f"{path}: has 1 {{ too many")


def test_the_compilers_own_words_follow_the_line(folder):
    """At the command line too, also where a study names the header, by a path from the study's folder."""
    path = changed(folder, "s.height -= 1.0f;", "s.hight -= 1.0f;")
    with pytest.raises(HeaderError) as error:
        find("catch_ball")
    (said,) = error.value.__notes__
    assert f"{path}:32:" in said and "s.hight -= 1.0f;" in said and "^" in said and "In file included" not in said
    (folder / "studies").mkdir()
    (folder / "studies" / "mine.toml").write_text(
        '# ?\nenv = "../envs/catch_ball.h"\nspace = "ppo"\n[solve]\nmean_return = 1\n')
    code = "from sweep.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(environments.__file__).parents[1])}
    shown = subprocess.run([sys.executable, "-P", "-c", code, "run", "studies/mine.toml"], capture_output=True, text=True,
                           env=environment, check=False)  # fmt: skip
    first, *rest = shown.stderr.splitlines()
    assert shown.returncode == 2 and "catch_ball.h:32: " in first and first.startswith("sweep: studies/mine.toml: 'env' is")
    assert "s.hight -= 1.0f;" in "\n".join(rest)
    changed(folder, "sweep::Outcome step(", "sweep::Outcome play(")
    with pytest.raises(HeaderError) as error:
        find("catch_ball")
    assert not hasattr(error.value, "__notes__")  # the words are ours: the compiler's would name a line of table.h


def test_a_state_that_is_not_plain_data(folder):
    owner = "struct Owner { Owner() {} Owner(const Owner&) {} };\n"
    changed(folder, "struct State {", owner + "struct State {\n    Owner owner;")
    assert "State must be plain data (trivially copyable)" in complaint("catch_ball")


OBSERVE = "observation[2] = p.slippery ? 1.0f : 0.0f;"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("observation_size = 3", "observation_size = 4", "observe leaves observation[3] unwritten; observation_size is 4"),
        ("observation_size = 3", "observation_size = 1",
         "observe writes observation[1] and beyond; observation_size is 1"),
        ("observation_size = 3", "observation_size = 2", "observe writes observation[2]; observation_size is 2"),
        (OBSERVE, "if (s.height > 2.0f) observation[2] = 0.0f;", "observe leaves observation[2] unwritten"),
        (OBSERVE, "observation[2] = observation[-1] = 0.0f;", "observe writes before observation[0]"),
        (OBSERVE, "observation[2] = sweep::fma(s.height - 3.0f, 0.0f, (s.height - 3.0f) / (s.height - 3.0f));",
         "observation[2] is not a number after 2 env steps"),
        (OBSERVE, "observation[2] = 1.0f / (s.height - 4.0f);", "observation[2] is infinite after 1 env step"),
        ("return {landed &&", "return {s.height == 3.0f ? __builtin_nanf(\"\") : landed &&",
         "step gives a reward that is not a number after 2 env steps"),
        ("s.seen[1][2] = 1;", "for (volatile int i = 0; i < 64; i++) s.seen[0][i] = 1;", "step writes outside State"),
        ("s.height -= 1.0f;", "*reinterpret_cast<volatile int*>(p.width * 2) = 1;",
         "it crashed (signal SIGSEGV) while 300 env steps were played"),
        ("s.height -= 1.0f;", "__builtin_exit(0);", "it ended its process (exit status 0)"),
        ("actions = 3", "actions = 1", "actions must be at least 2"),
        ("actions = 3", "actions = 65", "actions is 65; the trainer takes 2 to 64"),
    ],
)  # fmt: skip
def test_mistakes_that_show_when_it_is_played(folder, old, new, expected):
    path = changed(folder, old, new)
    message = complaint("catch_ball")
    assert message.startswith(f"{path}: ") and expected in message
    assert complaint("catch_ball") == message  # and is not taken from the cache the next time


def test_a_game_that_loops_for_ever(folder, monkeypatch):
    monkeypatch.setattr(probe, "LIMIT_SECONDS", 0.5)
    changed(folder, "s.height -= 1.0f;", "for (volatile int i = 0; i >= 0;) i = 1;")
    assert complaint("catch_ball").endswith("it did not return within 0.5 s while 300 env steps were played")


def test_a_header_is_played_once(folder, monkeypatch):
    changed(folder, "height = 5.0f", "height = 9.0f")
    played = []
    monkeypatch.setattr(probe, "fault", played.append)
    find("catch_ball")
    environments._load.cache_clear()
    find("catch_ball")
    assert len(played) == 1


def test_numbers_of_float_fields_are_as_written(folder):
    changed(folder, "double wind = 0.1;", "float wind = 0.01f;").write_text(
        (folder / "envs" / "catch_ball.h").read_text().replace("{0, 1}", "{0.01f, 0.7f}", 1))
    env = find("catch_ball")
    wind = env.params["wind"]
    assert (wind.default, wind.low, wind.high) == (0.01, 0.01, 0.7)
    default = np.frombuffer(env.param_bytes({}), env.params_dtype)[0]
    given = np.frombuffer(env.param_bytes({"wind": wind.default}), env.params_dtype)[0]
    assert given["wind"] == default["wind"] == np.float32(0.01)


def test_one_broken_header_does_not_hide_the_others(folder):
    path = changed(folder, "observation_size = 3", "observation_size = 4")
    shown = CliRunner().invoke(cli.cli, ["envs"])
    assert shown.exit_code == 1 and "cartpole" in shown.output and "breakout" in shown.output
    assert [line for line in shown.output.splitlines() if line.startswith("error: ")] == [
        f"error: {path}: observe leaves observation[3] unwritten; observation_size is 4"
    ]
    listed = json.loads(CliRunner().invoke(cli.cli, ["envs", "--json"]).stdout)
    assert [env["env"] for env in listed] == sorted([*SHIPPED, "catch_ball"])
    assert [env["env"] for env in listed if "error" in env] == ["catch_ball"]
    assert any("observation[3] unwritten" in problem for problem in doctor.examine("none.db")["problems"])


def test_no_compiler(folder, monkeypatch):
    changed(folder, "height = 5.0f", "height = 7.0f")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "CXX names the compiler 'no-such-compiler'" in complaint("catch_ball")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(folder))
    assert "no C++ compiler found" in complaint("catch_ball") and "apt install g++" in complaint("catch_ball")


def test_a_cache_that_cannot_be_written(folder, monkeypatch):
    changed(folder, "height = 5.0f", "height = 8.0f")
    (folder / "file").write_text("")
    monkeypatch.setenv("SWEEP_CACHE", str(folder / "file" / "cache"))
    assert "name another folder in SWEEP_CACHE" in complaint("catch_ball")


def test_bad_arguments_of_transition():
    state = initial_state("cartpole")
    with pytest.raises(ValueError, match="action is 2; legal is a whole number from 0 to 1"):
        transition("cartpole", state, 2)
    with pytest.raises(ValueError, match="not one State of breakout"):
        transition("breakout", state, 0)
    with pytest.raises(ConfigError, match="Did you mean 'frameskip'"):
        initial_state("breakout", framskip=3)
    with pytest.raises(ConfigError, match="from 1 to 16"):
        initial_state("breakout", frameskip=17)


# -- instruction sets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", range(4))
def test_instruction_sets(monkeypatch, levels):
    monkeypatch.setattr(headers.platform, "machine", lambda: "x86_64")
    names = list(headers.ISAS)[::-1][:levels]
    flags = " ".join(headers.ISAS[name] for name in names)
    assert headers.machine_isas(f"processor : 0\nflags\t\t: fpu {flags} \n") == (names[::-1] or ["plain"])
    monkeypatch.setattr(headers.platform, "machine", lambda: "arm64")
    assert headers.machine_isas("flags : avx2") == ["plain"]
    assert headers.march_flags("plain") == [] and headers.march_flags("x86-64-v3") == ["-march=x86-64-v3"]


# -- how the shipped games play --------------------------------------------------------------------------------


def play(env, actions, skip, seeds):
    """States after rows of actions, frameskip `skip`, each copy with its own stream; ended episodes begin anew."""
    table = environments.Table.from_address(env.table_address)
    params, n = env.param_bytes({"frameskip": skip}), len(seeds)
    rngs = np.array(seeds, np.uint64)
    states, outcomes = np.zeros(n, env.state_dtype), np.zeros(n, environments.OUTCOME)
    table.reset(states.ctypes.data, params, rngs.ctypes.data, n)
    rewards, ended = np.zeros(n), np.zeros(n, bool)
    for row in actions.astype(np.int32):
        before, before_rngs = states.copy(), rngs.copy()
        table.step(states.ctypes.data, params, row.ctypes.data, rngs.ctypes.data, outcomes.ctypes.data, n)
        states[ended], rngs[ended] = before[ended], before_rngs[ended]  # what has ended stays as it ended
        rewards += np.where(ended, 0, outcomes["reward"])
        ended |= outcomes["terminated"] | outcomes["truncated"]
    return states, rewards, ended


def test_breakout_a_step_is_its_frames():
    env = find("breakout")
    rng = np.random.default_rng(2)
    actions = rng.integers(0, 3, (300, 32))
    long = play(env, actions, 5, range(32))
    short = play(env, np.repeat(actions, 5, axis=0), 1, range(32))
    for of_steps, of_frames in zip(long, short, strict=True):
        np.testing.assert_array_equal(of_steps, of_frames)
    assert long[2].any() and not long[2].all() or long[1].sum() > 0


def test_breakout_is_cut_after_30000_frames():
    state = initial_state("breakout")
    state["frames"] = 29_997
    state, _, terminated, truncated, _ = transition("breakout", state, 0, frameskip=2)
    assert (terminated, truncated, state["frames"]) == (False, False, 29_999)
    after, _, terminated, truncated, observation = transition("breakout", state, 0)
    assert (terminated, truncated) == (False, True)
    assert after["frames"] == 0 and after["balls_fired"] == 0
    assert observation[6] == np.float32(0.2)  # launched: still the episode that was cut


def test_breakout_a_policy_under_the_ball_nearly_clears_both_screens():
    env = find("breakout")
    scores, steps = [], 0
    for seed in range(4):
        state, score = initial_state(env, seed), 0.0
        for step in range(7500):
            away = float(state["ball_x"] + 16 - state["paddle_x"] - state["paddle_width"] / 2)
            action = 2 if away > 8 else 1 if away < -8 else 0
            state, reward, terminated, truncated, observation = transition(env, state, action, seed * 10_000 + step)
            assert set(observation[10:].tolist()) <= {0.0, 1.0}
            inside = (observation >= env.inputs["low"]) & (observation <= env.inputs["high"])
            assert inside[[0, 1, *range(4, 118)]].all()  # the ball alone can leave the field, for some frames
            score, steps = score + reward, steps + 1
            if terminated or truncated:
                break
        scores.append(score)
    assert max(scores) == 864 and np.mean(scores) > 750
    assert 2_000 < steps / 4 < 6_000


def test_the_table_is_laid_out_as_in_the_header():
    assert ctypes.sizeof(environments.Table) == 176
    assert environments.INPUT.itemsize == 12 and environments.OUTCOME.itemsize == 8
    table = environments.Table.from_address(find("cartpole").table_address)
    assert (table.name, table.abi, table.params_fields) == (b"cartpole", headers.abi(), 0)


KINDS = """// Kinds: every optional part of a header.
#pragma once
#include "environment.h"
namespace kinds {
constexpr int observation_size = 12, longest_episode = 5;
ACTIONS
constexpr bool needs_memory = true;
constexpr sweep::Image image = {2, 3, 2};
constexpr sweep::Picture picture = {30.0f, 20.0f};
struct State { float first, second; int steps; };
struct Params {};
SWEEP_FN constexpr sweep::Input input(int i) { return i ? sweep::flag() : sweep::typical(0.0f, 255.0f); }
SWEEP_FN void reset(State& s, const Params&, sweep::Rng& rng) { s = {rng.normal(), rng.chance(0.5f) ? 1.0f : 0.0f, 0}; }
SWEEP_FN sweep::Outcome step(State& s, const Params&, const NUMBER* action, sweep::Rng&) {
    s.first = float(action[0]);
    s.second = float(action[1]);
    return {s.first + 10.0f * s.second, false, ++s.steps >= longest_episode};
}
SWEEP_FN void observe(const State& s, const Params&, sweep::uint8* observation) {
    for (int i = 0; i < 12; i++) observation[i] = i == 0 ? 200 : i == s.steps;
}
SWEEP_FN float metric(const State& s, const Params&) { return s.steps / 5.0f; }
SWEEP_FN void draw(const State&, const Params&, sweep::Canvas& c) { c.rectangle(1, 2, 3, 4, 0xFF0000); }
}  // namespace kinds
"""


@pytest.mark.parametrize("number, actions, legal, reward, illegal", [
    ("int", "constexpr int actions[] = {3, 2};", [2, 1], 12.0, [2, 2]),
    ("float", "constexpr sweep::Bounds actions[] = {{-1, 1}, {0, 4}};", [-0.5, 4.0], 39.5, [0.0, 4.5]),
])  # fmt: skip
def test_all_optional_parts(tmp_path, number, actions, legal, reward, illegal):
    header = tmp_path / "kinds.h"
    header.write_text(KINDS.replace("NUMBER", number).replace("ACTIONS", actions))
    env = find(header)
    assert (env.observation_dtype, env.image, env.needs_memory, env.has_metric) == (np.uint8, (2, 3, 2), True, True)
    assert env.picture == (30.0, 20.0) and env.about == "Kinds: every optional part of a header."
    assert env.inputs["is_open"].tolist() == [True] + [False] * 11
    assert (env.choices, env.action_bounds.tolist()) == (((3, 2), []) if number == "int" else ((), [[-1, 1], [0, 4]]))
    assert env.actions == (5 if number == "int" else 2)
    state, paid, terminated, _, seen = transition(env, initial_state(env, 3), legal)
    assert paid == reward and not terminated and seen.dtype == np.uint8 and seen.tolist() == [200, 1] + [0] * 10
    with pytest.raises(ValueError, match="action is"):
        transition(env, state, illegal)
    with pytest.raises(ValueError, match="takes 2 numbers"):
        transition(env, state, 1)


SEVERAL, BOUNDED = "constexpr int actions[] = {3, 2};", "constexpr sweep::Bounds actions[] = {{-1, 1}, {0, 4}};"
STEP = "legal is `SWEEP_FN sweep::Outcome step(State&, const Params&, {} action, sweep::Rng&)`"
WRITTEN = "is a part of a header that is written `constexpr {};`; name what is something else otherwise"


@pytest.mark.parametrize(("actions", "old", "new", "expected"), [
    (SEVERAL, "const int* action, sweep::Rng&) {\n    s.first = float(action[0]);\n    s.second = float(action[1]);", "int, sweep::Rng&) {",
     STEP.format("const int*")),
    (BOUNDED, "const int* action", "const int* action", STEP.format("const float*")),
    ("constexpr int actions = 3;", "const int* action", "const int* action", STEP.format("int")),
    ("constexpr int actions[] = {3, 1};", "", "", "actions must be at least 2"),
    ("constexpr sweep::Bounds actions[] = {{1, -1}};", "const int*", "const float*", "finite bounds {low, high}, the low one below"),
    ("constexpr sweep::Bounds actions[] = {{0, 1e400}};", "const int*", "const float*", "finite bounds {low, high}"),
    ("constexpr float actions[] = {3, 2};", "", "", "actions are `constexpr int actions = 3;`, several at once"),
    ("constexpr int actions[] = {60, 10};", "", "", "actions is 70; the trainer takes 2 to 64"),
    ("", "", "", "has no `actions`"),
    (SEVERAL, "sweep::uint8* observation", "int* observation", "kinds.h:19: `observe` does not fit"),
    (SEVERAL, "sweep::typical(0.0f, 255.0f)", "sweep::quantity(-1.0f, 1.0f)", "an observation of bytes has inputs within 0 to 255"),
    (SEVERAL, "image = {2, 3, 2}", "image = {2, 3, 3}", "an image's height, width and channels multiply to observation_size"),
    (SEVERAL, "sweep::Image image = ", "int image[] = ",
     "kinds.h:8: `image` " + WRITTEN.format("sweep::Image image = {height, width, channels}")),
    (SEVERAL, "bool needs_memory", "int needs_memory", "kinds.h:7: `needs_memory` " + WRITTEN.format("bool needs_memory = true")),
    (SEVERAL, "float metric(", "double metric(", "kinds.h:22: `metric` is a part of a header that is written `SWEEP_FN float metric("),
    (SEVERAL, "metric(const State& s, const Params&)", "metric(const State& s)", "kinds.h:22: `metric` does not fit: "),
    (SEVERAL, "s.steps / 5.0f", "0.0f / (s.steps - 5.0f)", "metric is nan at the end of an episode; legal is 0 to 1"),
    (SEVERAL, "void draw(", "void paint(", "has no `draw`: `SWEEP_FN void draw(const State&, const Params&, sweep::Canvas&)`"),
    (SEVERAL, "draw(const State&, const Params&,", "draw(const State&,", "kinds.h:23: `draw` does not fit"),
    (SEVERAL, "constexpr sweep::Picture picture = {30.0f, 20.0f};", "",
     "kinds.h:23: `draw` needs a picture to draw on: `constexpr sweep::Picture picture = {width, height};`"),
    (SEVERAL, "{30.0f, 20.0f}", "{30.0f, 0.0f}", "a picture has a width and a height above 0"),
    (SEVERAL, "i < 12; i++) observation", "i < 11; i++) observation", "observe leaves observation[11] unwritten; observation_size is 12"),
    (SEVERAL, "i < 12; i++) observation", "i < 13; i++) observation", "observe writes observation[12]; observation_size is 12"),
    (BOUNDED, "const int* action, sweep::Rng&) {", ("const float* action, sweep::Rng&) {\n    if (action[1] > 4.0f || action[0] < -1.0f) return "
     "{0.0f / s.steps - 0.0f / s.steps, false, false};"), None),
])  # fmt: skip
def test_mistakes_in_the_optional_parts(tmp_path, actions, old, new, expected):
    header, text = tmp_path / "kinds.h", KINDS.replace("NUMBER", "int").replace("ACTIONS", actions)
    assert old in text
    header.write_text(text.replace(old, new))
    if expected is None:
        find(header)
        return
    message = complaint(header)
    assert message.startswith(str(header)) and expected in message


@pytest.mark.parametrize("said", [
    "static assertion failed: an image fits", "static assertion failed due to requirement 'a == b': an image fits",
    "static_assert failed due to requirement 'sizeof(const float[2]) == 0' \"an image fits\"", "static_assert failed \"an image fits\""])
def test_what_table_h_asks_for_is_said_in_its_words_by_every_compiler(tmp_path, said):
    header = tmp_path / "kinds.h"
    header.write_text(KINDS)
    assert headers.first_error(header, f"{headers.CORE}/table.h:9:1: error: {said}\n") == f"{header}: an image fits"


def test_optional_parts_of_an_included_header_are_its_own(tmp_path):
    """A header that builds on another has those it takes over, and no others."""
    (tmp_path / "kinds.h").write_text(KINDS.replace("NUMBER", "int").replace("ACTIONS", SEVERAL))
    again = tmp_path / "again.h"
    shared = "using kinds::State, kinds::Params, kinds::observation_size, kinds::actions, kinds::longest_episode, kinds::reset;"
    again.write_text(f'''// Again: the same, with a metric alone.
#pragma once
#include "kinds.h"
namespace again {{
{shared.replace(", ", "; using ").replace("using kinds::State;", "using State = kinds::State;")}
using kinds::input; using kinds::step; using kinds::observe;
using kinds::metric;
}}  // namespace again
''')
    env = find(again)
    assert env.has_metric and (env.picture, env.image, env.needs_memory) == (None, None, False)
    assert env.state_dtype.names == ("first", "second", "steps")


def test_a_metric_outside_its_range_is_refused(tmp_path):
    header = tmp_path / "kinds.h"
    header.write_text(KINDS.replace("NUMBER", "int").replace("ACTIONS", "constexpr int actions[] = {3, 2};").replace("/ 5.0f", "/ 4.0f"))
    with pytest.raises(HeaderError, match="metric is 1.25 at the end of an episode; legal is 0 to 1"):
        find(header)


def test_a_state_may_be_that_of_another_header(tmp_path):
    (tmp_path / "corridor.h").write_text((Path(__file__).parents[1] / "native" / "corridor.h").read_text())
    (tmp_path / "again.h").write_text("""// Again: a corridor once more.
#pragma once
#include "corridor.h"
namespace again {
using corridor::State;
using corridor::Params;
using corridor::observation_size, corridor::actions, corridor::longest_episode;
using corridor::input, corridor::reset, corridor::step, corridor::observe;
}  // namespace again
""")
    assert find(tmp_path / "again.h").state_dtype == find(tmp_path / "corridor.h").state_dtype


def test_normal_numbers_are_normal(tmp_path):
    header = tmp_path / "kinds.h"
    header.write_text(KINDS.replace("NUMBER", "int").replace("ACTIONS", "constexpr int actions[] = {3, 2};"))
    starts = np.array([initial_state(find(header), seed) for seed in range(4000)])
    drawn = starts["first"]
    assert abs(drawn.mean()) < 4.9 / np.sqrt(4000) and abs((drawn**2).mean() - 1) < 4.9 * np.sqrt(2 / 4000)  # one in a million each
    assert abs((drawn**4).mean() - 3) < 4.9 * np.sqrt(96 / 4000) and abs(starts["second"].mean() - 0.5) < 4.9 * 0.5 / np.sqrt(4000)
