"""Short training runs through tests/native/run.cpp, built here for what the installed module is not built for."""

import os
import subprocess
from pathlib import Path

import numpy as np

import trainer_native
from trainer_native import config, environments, headers

NATIVE = Path(__file__).parent / "native"
GAMES = {"cartpole": "cartpole", "breakout": "breakout", **{name: str(NATIVE / f"{name}.h") for name in ("board", "corridor", "doors", "reach")}}
FLAGS = ["-std=c++20", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi",
         '-DSWEEP_ISA="test"']  # fmt: skip
SMALL = {"envs": 12, "horizon": 10, "minibatches": 3, "epochs": 2}
#: What is run, defaults where silent: game, params. Extend it with whatever takes another way through the code.
RUNS = {
    "defaults": ("cartpole", {"envs": 32, "horizon": 16}),
    "wide": ("cartpole", {**SMALL, "epochs": 1, "hidden": 40, "layers": 2, "normalise_inputs": "none"}),
    "more rows than a chunk": ("cartpole", {"envs": 72, "horizon": 7, "minibatches": 1, "hidden": 8,
                                            "entropy_coefficient": 0.1}),
    "breakout": ("breakout", {**SMALL, "hidden": 24, "horizon": 64}),
    "breakout, moments, adam": ("breakout", {**SMALL, "normalise_inputs": "moments", "optimizer": "adam",
                                             "learning_rate": 1e-3}),
    "truncated": ("corridor", {**SMALL, "horizon": 20, "hidden": 8}),
    "truncated, v-trace": ("corridor", {**SMALL, "horizon": 20, "layers": 3, "vtrace": True, "rho_clip": 1.2}),
    "lstm": ("corridor", {**SMALL, "cell": "lstm", "hidden": 16, "layers": 2, "biases": True}),
    "mlp": ("cartpole", {**SMALL, "cell": "mlp", "separate_value": True, "biases": True, "initialisation": "orthogonal",
                         "layers": 2}),
    "mlp, relu": ("breakout", {**SMALL, "cell": "mlp", "activation": "relu", "hidden": 8, "layers": 3}),
    "priority, v-trace": ("cartpole", {**SMALL, "priority": 0.8, "vtrace": True, "constant_input": False}),
    "value clip, annealed": ("cartpole", {**SMALL, "value_clip": 0.2, "anneal_steps": 500,
                                          "normalise_advantages": False}),
    "truncated, normalised rewards, schedules, half passes": ("corridor", {
        **SMALL, "horizon": 20, "normalise_rewards": True, "anneal_steps": 900, "anneal": "cosine", "clip_end": 0.5,
        "entropy_end": 0.0, "priority": 0.5, "replay_ratio": 1.4}),
    "transitions, by priority, v-trace": ("corridor", {
        **SMALL, "cell": "mlp", "layers": 2, "biases": True, "separate_value": True, "minibatch_of": "transitions",
        "minibatches": 6, "priority": 0.5, "vtrace": True}),
    "several actions": ("doors", {**SMALL, "hidden": 8, "vtrace": True}),
    "several actions, lstm, biases, by priority": ("doors", {**SMALL, "cell": "lstm", "hidden": 8, "biases": True, "envs": 72,
                                                             "horizon": 7, "priority": 0.5}),
    "continuous": ("reach", {**SMALL, "envs": 72, "horizon": 20, "hidden": 16, "log_std": -0.5}),
    "continuous, squashed, mlp, transitions, adam": ("reach", {
        **SMALL, "cell": "mlp", "separate_value": True, "minibatch_of": "transitions", "gaussian": "squashed",
        "optimizer": "adam", "learning_rate": 0.02, "normalise_rewards": True, "vtrace": True}),
    "flags as bytes": ("board", {**SMALL, "horizon": 20, "hidden": 40, "biases": True}),
    "flags as bytes, transitions": ("board", {**SMALL, "cell": "mlp", "minibatch_of": "transitions", "hidden": 8}),
    "convolution": ("board", {**SMALL, "encoder": "conv", "filters": 24, "hidden": 8, "horizon": 20}),
    "convolution, lstm, two towers": ("board", {**SMALL, "encoder": "conv", "filters": 8, "cell": "lstm", "separate_value": True,
                                                "initialisation": "orthogonal", "biases": True}),
    "truncated is terminated, adam, decay": ("corridor", {
        **SMALL, "bootstrap_truncated": False, "optimizer": "adam", "learning_rate": 1e-3, "head_rate": 0.5,
        "weight_decay": 0.1, "value_clip": 0.2, "value_clip_loss": "clipped"}),
}  # fmt: skip
#: Never solved, but an evaluation is tried as often as it may be.
RULE = {"mean_return": 1e9, "episodes": 10, "policy": "sampled"}
ITERATIONS, SEED = 5, 3


def full(name: str) -> tuple[environments.Environment, dict, int]:
    """The environment, all params, and the env steps of a run in RUNS."""
    game, params = RUNS[name]
    environment = environments.find(GAMES[game])
    params = config.complete({"try_from": -1e9, **params}, environment.params)
    return environment, params, params["envs"] * params["horizon"] * ITERATIONS


def build(folder: Path, name: str, flags: list[str], compiler: list[str] | None = None) -> Path:
    """The driver, compiled with `flags`. RuntimeError with the compiler's words where it does not build."""
    compiler, objects = compiler or headers.compiler(), []
    flags = [*FLAGS, *flags, "-iquote", str(headers.CORE)]

    def compile(source: str, output: Path, more: list[str]) -> None:
        done = subprocess.run([*compiler, *flags, *more, "-c", "-x", "c++", "-", "-o", str(output)], input=source,
                              capture_output=True, text=True, check=False, cwd=NATIVE)  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])

    for game, where in GAMES.items():
        path = environments.find(where).source
        fields = [list(headers.fields(path, struct)) for struct in ("State", "Params")]
        objects.append(folder / f"{name}-{game}.o")
        # A namespace of its own for each game: their tables share every other name.
        renamed = [f"-Dsweep=sweep_{game}", f"-Dsweep_environment={game}_environment"]
        compile(headers.glue(path, *fields), objects[-1], renamed)
    objects.append(folder / f"{name}.o")
    listed = " ".join(f"X({game})" for game in GAMES)
    compile((NATIVE / "run.cpp").read_text(), objects[-1], [f"-DSWEEP_GAMES={listed}"])
    program = folder / name
    linked = subprocess.run([*compiler, *flags, *map(str, objects), "-o", str(program), "-pthread"],
                            capture_output=True, text=True, check=False)  # fmt: skip
    if linked.returncode:
        raise RuntimeError(linked.stderr[-2000:])
    return program


def run(program: Path, names=tuple(RUNS), lanes=1, before: tuple[str, ...] = (), **environment: str) -> dict[str, str]:
    """What the driver says of each run: a hash of its weights, env steps, last mean return, ending.

    `before`: what runs the program (an emulator); `environment`: its variables.
    """
    text = ""
    for name in names:
        _, params, steps = full(name)
        given = {**params, "game": RUNS[name][0], "seed": SEED, "max_env_steps": steps, "lanes": lanes,
                 "mean_return": RULE["mean_return"], "episodes": RULE["episodes"],
                 "greedy": RULE["policy"] == "greedy"}  # fmt: skip
        text += "".join(f"{key} {value!r}\n".replace("'", "") for key, value in given.items()) + "\n"
    done = subprocess.run([*before, str(program)], input=text, capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})  # fmt: skip
    assert done.returncode == 0 and not done.stderr, done.stderr[:9000] or f"exit status {done.returncode}"
    return dict(zip(names, done.stdout.splitlines(), strict=True))


def of_module(name: str) -> str:
    """The driver's hash, of the same run by the installed module."""
    environment, params, steps = full(name)
    run = trainer_native.train(environment, params, SEED, RULE, 1e9, steps)
    assert (run.reason, run.env_steps) == ("env-step limit", steps)
    matrices = [value.ravel() for name, value in run.weights.items() if not name.startswith("input_")]
    played = trainer_native.evaluate(environment, params, run.weights, episodes=3, seed=1, policy="greedy")
    metrics = [] if played["metrics"] is None else [played["metrics"]]
    floats = np.concatenate([*matrices, run.weights["input_scale"], run.weights["input_shift"], played["returns"], *metrics])
    found = 0xCBF29CE484222325
    for byte in floats.astype(np.float32).tobytes():
        found = (found ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"{found:016x}"
