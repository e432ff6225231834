"""`sweep bench trainer`: its JSON, its comparison of builds, and what it refuses."""

import json
import math
import shutil
from pathlib import Path

import pytest

import trainer_native
from sweep import bench, cli
from trainer_native import environments, limits

TINY = ["--env", "cartpole", "--hidden", "8", "--epochs", "1", "--seconds", "0.001", "--repeats", "2"]

STUB = '''
"""A trainer that does what the installed one does, or that ends with other weights, or later."""
from types import SimpleNamespace
import numpy as np

SEMANTICS, WEIGHT, SECONDS = {semantics}, {weight}, {seconds}
Solve = lambda mean_return: None
build_info = lambda: {{"isa": "stub", "compiler": "stub", "semantics": SEMANTICS}}
environments = SimpleNamespace(find=lambda env: SimpleNamespace(source_hash="0"))

def train(env, params, seed, solve, max_seconds, max_env_steps):
    n = params["envs"] * params["horizon"]
    steps = np.arange(n, max_env_steps + 1, n)
    curve = np.stack([SECONDS * steps, SECONDS * steps, steps, 0.0 * steps], 1)
    return SimpleNamespace(env_steps=max_env_steps, cpu_seconds=SECONDS * max_env_steps, seconds=SECONDS * max_env_steps,
                           status="censored", curve=curve, rollout_seconds=1.0, update_seconds=1.0,
                           weights={{"encoder": np.full(3, WEIGHT, np.float32)}})
'''


def call(capsys, *arguments):
    """(exit status, stdout, stderr) of the command."""
    with pytest.raises(SystemExit) as exit_:
        cli.main(["bench", "trainer", *arguments])
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


@pytest.fixture
def stub(tmp_path):
    """Writes a build that is not one: folder of a `trainer_native` with those semantics, weights and seconds per env step."""

    def write(name="other", semantics=None, weight=1.0, seconds=1e-6):
        folder = tmp_path / name / "trainer_native"
        folder.mkdir(parents=True)
        semantics = trainer_native.build_info()["semantics"] if semantics is None else semantics
        (folder / "__init__.py").write_text(STUB.format(semantics=semantics, weight=weight, seconds=seconds))
        (folder / "_core.py").write_text("")
        return str(folder.parent)

    return write


def test_the_json_is_as_documented(capsys):
    status, out, err = call(capsys, *TINY, "--json")
    found = json.loads(out)
    assert status == 0 and "cartpole" in err
    assert {"machine", "peak_gflops", "cases"} <= set(found) and found["peak_gflops"] > 0.1
    (case,) = found["cases"]
    assert {"env", "hidden", "layers", "cell", "epochs", "env_steps_per_cpu_second", "share_of_peak", "bound", "split",
            "share_of_bound", "ns_per_env_step", "repeats", "rss_bytes", "start_ms", "start_cpu_ms"} <= set(case)
    assert (case["env"], case["hidden"], case["layers"], case["cell"], case["epochs"]) == ("cartpole", 8, 1, "mingru", 1)
    assert set(case["ns_per_env_step"]) == {"iteration_0", "iterations_1_6", "rest"}
    assert all(value > 0 for value in case["ns_per_env_step"].values())
    assert set(case["split"]) in ({*PARTS, "evaluation", "rest"}, {"rollout", "update"})
    assert sum(case["split"].values()) == pytest.approx(1.0) and len(case["repeats"]) == 2
    assert case["share_of_bound"] == pytest.approx(case["env_steps_per_cpu_second"] / case["bound"])
    assert case["share_of_peak"] == pytest.approx(
        case["env_steps_per_cpu_second"] * case["flop_per_env_step"] / 1e9 / case["peak_gflops"])
    assert 1e6 < case["rss_growth_bytes"] + 1e6 <= case["rss_bytes"] and case["start_ms"] > 0


def test_the_cases_that_are_timed_by_default():
    found = bench.cases([], [], [1], ["mingru"], [], [64], {})
    assert {(c["env"], c["params"]["hidden"], c["params"]["epochs"]) for c in found} >= {
        *(("breakout", hidden, 2) for hidden in (8, 16, 32, 64, 128)),
        *(("cartpole", hidden, epochs) for hidden in (8, 32, 64) for epochs in (1, 4))}


def test_every_horizon_has_the_same_rollout():
    found = bench.cases(["cartpole"], [8], [1, 2], ["mingru"], [1], [4, 64, 256, 1024], {"minibatches": 2})
    assert len(found) == 8 and {c["params"]["envs"] * c["params"]["horizon"] for c in found} == {8192}
    assert {c["params"]["minibatches"] for c in found} == {2}
    assert len({c["case"] for c in bench._named(found)}) == 8


def test_flop_of_an_env_step_as_anchored():
    # 2 MAC + epochs (4 d H + 6 (3 H² L + H (A + 1))): CartPole reads 4 numbers and the constant, has 2 actions.
    assert limits.flop_per_env_step("cartpole", {"hidden": 32, "epochs": 1}) == 26304
    d, h = 5, 16
    others = 3 * h * h * 2 + h * 3
    assert limits.flop_per_env_step("cartpole", {"hidden": h, "layers": 2, "epochs": 3}) == (
        2 * (d * h + others) + 3 * (4 * d * h + 6 * others))


def test_a_replay_ratio_stands_for_epochs():
    def flop(**params):
        return limits.flop_per_env_step("cartpole", {"hidden": 8, "minibatches": 4, **params})

    assert flop(replay_ratio=3.0) == flop(epochs=3)
    assert flop(replay_ratio=1.6) == (flop(epochs=1) + flop(epochs=2)) / 2


def test_flop_of_every_cell():
    """A value network of its own doubles all but the decoder's columns."""
    d, h, outputs = environments.find("breakout").observation_size + 1, 32, environments.find("breakout").actions + 1
    for cell, layer in (("mingru", 3), ("lstm", 8)):
        found = limits.flop_per_env_step("breakout", {"hidden": h, "cell": cell, "epochs": 2})
        others = layer * h * h + h * outputs
        assert found == 2 * (d * h + others) + 2 * (4 * d * h + 6 * others)
    two = {"hidden": h, "cell": "mlp", "layers": 2, "epochs": 1, "biases": True, "separate_value": True}
    others = 2 * h * h + h * outputs
    assert limits.flop_per_env_step("breakout", two) == 2 * (2 * d * h + others) + 4 * 2 * d * h + 6 * others


def test_what_a_core_can_do_is_measured():
    found = limits.measure("cartpole", {"envs": 64})
    assert 1e8 < found["peak_flops"] < 1e13 and 1e-10 < found["environment_seconds"] < 1e-4


PARTS = ["environment", "forward", "sampling", "advantages", "loss", "backward", "optimizer", "copying"]


@pytest.mark.parametrize("params", [{}, {"envs": 4, "horizon": 1024, "minibatches": 2}, {"vtrace": True, "priority": 0.5}])
def test_the_phases_of_a_run_sum_to_its_cpu_seconds(params):
    run = trainer_native.train("cartpole", {"hidden": 8, **params}, 1, trainer_native.Solve(1e9), 100, 30000)
    if not sum(run.phases.values()):
        pytest.skip("this processor has no clock for phases")
    assert list(run.phases) == [*PARTS, "evaluation", "rest"]
    assert sum(run.phases.values()) == pytest.approx(run.cpu_seconds, rel=1e-9)
    assert all(run.phases[part] > 0 for part in PARTS) and run.phases["evaluation"] == 0
    assert run.phases["rest"] < 0.5 * run.cpu_seconds


def test_a_tried_solve_is_a_phase():
    run = trainer_native.train("cartpole", {"hidden": 8}, 1, trainer_native.Solve(5.0, 20), 100, 500000)
    assert run.status == "solved" and (not sum(run.phases.values()) or run.phases["evaluation"] > 0)


def test_wider_networks_spend_their_time_in_products():
    shares = []
    for hidden in (8, 64):
        run = trainer_native.train("cartpole", {"hidden": hidden}, 1, trainer_native.Solve(1e9), 100, 100000)
        if not sum(run.phases.values()):
            pytest.skip("this processor has no clock for phases")
        shares.append((run.phases["forward"] + run.phases["backward"]) / run.cpu_seconds)
    assert shares[1] > shares[0] + 0.05 and shares[1] > 0.6


def test_a_table_is_what_a_person_gets(capsys):
    status, out, _ = call(capsys, *TINY, "--against", "minibatches=8")
    assert status == 0 and "cartpole 8 ×1" in out and "geometric mean" in out and "differ" in out
    assert max(map(len, out.splitlines())) <= 100, out


def against(capsys, folder):
    status, out, err = call(capsys, *TINY, "--json", "--against", folder)
    assert status == 0, err
    return json.loads(out)


def test_a_build_against_itself_has_the_same_weights(capsys, tmp_path):
    root = Path(trainer_native.__file__).parent
    if not list(root.glob("_core*")):
        pytest.skip("the module of an editable install lies elsewhere")
    copy = tmp_path / "copy" / "trainer_native"
    shutil.copytree(root, copy)
    if not (copy / "envs").exists():
        shutil.copytree(root.parent / "envs", copy / "envs")
    found = against(capsys, str(copy.parent))
    assert found["against"]["same_weights"] and found["against"]["same_semantics"]
    assert found["cases"][0]["against"]["same_environment"]
    assert not any("weights" in why for why in found["against"]["why_not"])


def test_other_weights_are_no_improvement_however_fast(capsys, stub):
    found = against(capsys, stub(seconds=1.0))
    (case,) = found["cases"]
    assert case["against"]["ratio"] > 1000 and not case["against"]["same_weights"]
    assert not found["against"]["improvement"] and "weights differ" in found["against"]["why_not"][0]


def test_other_semantics_may_have_other_weights(capsys, stub):
    found = against(capsys, stub(semantics=-1, seconds=1.0))
    assert not found["against"]["same_semantics"] and not found["against"]["same_weights"]
    assert found["against"]["improvement"] and found["against"]["geometric_mean"] > 1000


def test_a_slower_build_is_no_improvement(capsys, stub):
    found = against(capsys, stub(semantics=-1, seconds=1e-12))
    assert not found["against"]["improvement"] and found["against"]["worst_ratio"] < 0.97
    assert found["against"]["worst_case"] == "cartpole 8 ×1" and len(found["against"]["why_not"]) == 2


def timing(seconds, weights):
    return {"cpu_seconds": seconds, "env_steps": 1, "weights": weights, "semantics": 1}


@pytest.mark.parametrize(("ratios", "improvement"), [
    ((1.2, 1.0, 0.98), True), ((1.5, 1.5, 0.96), False), ((0.99, 0.99, 0.99), False), ((1.0, 1.0, 1.0), False)])
def test_an_improvement_is_faster_on_the_whole_and_nowhere_much_slower(ratios, improvement):
    timings = [[[timing(1.0, "a")], [timing(ratio, "a")]] for ratio in ratios]
    measured = [{"case": str(at), "against": {"ratio": ratio, "same_weights": True}} for at, ratio in enumerate(ratios)]
    found = bench._verdict(bench.Side("x", build="x"), measured, timings)
    assert found["improvement"] is improvement and found["worst_ratio"] == min(ratios)
    assert found["geometric_mean"] == pytest.approx(math.prod(ratios) ** (1 / 3))


@pytest.mark.parametrize(("arguments", "meant"), [
    (["--hidden", "7"], "multiple of 8"),
    (["--hidden", "8,x"], "--hidden"),
    (["--horizon", "0"], "horizon"),
    (["--horizon", "5000"], "horizon"),
    (["--env", "cartpol"], "Did you mean 'cartpole'?"),
    (["--cell", "lstmm"], "lstmm"),
    (["--params", "x"], "KEY=VALUE"),
    (["--params", "gama=1"], "Did you mean 'gamma'?"),
    (["--params", "minibatches=3"], "minibatches"),
    (["--seconds", "nan"], "--seconds"),
    (["--repeats", "0"], "--repeats"),
    (["--against", "nowhere"], "trainer_native"),
    (["--against", "epochz=2"], "Did you mean 'epochs'?"),
])
def test_a_mistake_is_one_line(capsys, arguments, meant, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *TINY, *arguments)
    message = err.splitlines()[-1]
    assert (status, out) == (2, "") and message.startswith("sweep: ") and meant in message
    assert all(line.startswith(("sweep: ", "cartpole 8 ×1, ")) for line in err.splitlines()), err


def test_a_build_that_cannot_be_imported_is_named(capsys, tmp_path):
    folder = tmp_path / "broken" / "trainer_native"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('no such symbol')")
    (folder / "_core.so").write_text("")
    status, _, err = call(capsys, *TINY, "--against", str(folder.parent))
    assert status == 2 and err.splitlines()[-1].startswith("sweep: ") and "no such symbol" in err


@pytest.mark.parametrize(("word", "pair"), [
    ("minibatches=8", ("minibatches", 8)), ("gamma=0.5", ("gamma", 0.5)), ("vtrace=true", ("vtrace", True)),
    ("optimizer=adam", ("optimizer", "adam")), (" clip = 1e-1 ", ("clip", 0.1))])
def test_a_param_is_read(word, pair):
    key, value = bench.param(word)
    assert (key, value) == pair and type(value) is type(pair[1])
