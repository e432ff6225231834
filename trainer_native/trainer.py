"""Training one run: params and a seed in, a Run out."""

from __future__ import annotations

import math
import numbers
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np

from . import config, environments, memory, states
from .environments import Environment

#: The most episodes of one evaluation: they are played side by side.
MOST_EPISODES = 1_000_000

#: What a run that ended unsolved says of it: ending in C++ -> (status, reason).
_ENDINGS = {
    "solved": ("solved", "criterion confirmed"),
    "cap": ("censored", "cap"),
    "step_limit": ("censored", "env-step limit"),
    "cancelled": ("censored", "cancelled"),
    "loss_not_finite": ("diverged", "the loss is not a number"),
    "gradient_not_finite": ("diverged", "the gradient is not a number"),
}


@dataclass(frozen=True)
class Solve:
    """When an environment is solved: a frozen policy's mean return over `episodes` fresh episodes reaches `mean_return`, or
    its mean metric `metric` (0 to 1, of a header that reports one); one of the two.

    `policy`: "sampled" acts as in training, "greedy" takes the likeliest action.
    """

    mean_return: float | None = None
    episodes: int = 100
    policy: str = "sampled"
    metric: float | None = None

    @property
    def target(self) -> float:
        """What the mean return, or the mean metric, has to reach."""
        return self.mean_return if self.metric is None else self.metric


@dataclass
class Run:
    """How one training run went. Seconds are wall time on the run's clock (from its first env step) unless named cpu."""

    status: str                       # "solved", "censored", "diverged", "crashed"
    reason: str                       # why it ended
    seed: int
    parameters: int                   # trainable weights of the network
    seconds: float                    # to the end; confirmation, where it solved
    cpu_seconds: float                # of the run's thread, over the same span
    setup_seconds: float              # before the first env step
    env_steps: int
    iterations: int
    rollout_seconds: float
    update_seconds: float
    evaluation_seconds: float
    trigger_seconds: float | None     # when a solve was first tried
    trigger_env_steps: int | None
    evaluations: int                  # solves tried
    mean_return: float | None         # solved: the confirmed mean; else of the last training episodes
    best_return: float | None         # best mean of training episodes
    curve: np.ndarray                 # float64 [points, 4]: cpu_seconds, seconds, env_steps, mean return (or metric, if solved on)
    mean_metric: float | None = None  # as mean_return and best_return; None too where the header has no metric
    best_metric: float | None = None
    weights: dict[str, np.ndarray] | None = field(default=None, repr=False)
    state: bytes | None = field(default=None, repr=False)  # what an unsolved run goes on from, where it was to be kept
    phases: dict[str, float] = field(default_factory=dict, repr=False)   # CPU seconds of each part; in sum cpu_seconds


@cache
def _core() -> ModuleType:
    from . import _core as core

    return core


@cache
def isa() -> str:
    """The instruction set that runs here: the best of those that were built. RuntimeError where none does."""
    core = _core()
    built = core.instruction_sets()
    runs = [name for name in built if core.runs_here(name)]
    if not runs:
        raise RuntimeError(f"this processor runs none of the instruction sets that were built: {', '.join(built)}")
    return runs[-1]


def build_info() -> dict:
    """What was built and what runs: isa, isas, fma (fused multiply-add), semantics, compiler."""
    core = _core()
    return {
        "isa": isa(),
        "isas": core.instruction_sets(),
        "fma": core.has_fma(isa()),
        "semantics": config.SEMANTICS,
        "compiler": core.compiler,
    }


def _environment(env: str | Path | Environment) -> Environment:
    return env if isinstance(env, Environment) else environments.find(env)


def _solve(solve: Solve | dict, environment: Environment) -> Solve:
    solve = Solve(**solve) if isinstance(solve, dict) else solve
    if (solve.mean_return is None) == (solve.metric is None):
        raise ValueError(f"a solve has either a mean_return or a metric, not {'both' if solve.metric is not None else 'neither'}")
    if solve.metric is None and (not isinstance(solve.mean_return, numbers.Real) or not math.isfinite(solve.mean_return)):
        raise ValueError(f"a solve's mean_return is a number, not {solve.mean_return!r}")
    if solve.metric is not None and not (isinstance(solve.metric, numbers.Real) and 0 < solve.metric <= 1):
        raise ValueError(f"a solve's metric is a number above 0 and up to 1, not {solve.metric!r}")
    if solve.metric is not None and not environment.has_metric:
        raise ValueError(f"a solve on a metric, and {environment.name} reports none; give a mean_return")
    if not _whole(solve.episodes, 1, MOST_EPISODES):
        raise ValueError(f"a solve's episodes are a whole number from 1 to {MOST_EPISODES}, not {solve.episodes!r}")
    if solve.policy not in ("sampled", "greedy"):
        raise ValueError(f"a solve's policy is 'sampled' or 'greedy', not {solve.policy!r}")
    return solve


def _whole(value, low: int, high: int) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and low <= value <= high


def _seed(seed: int) -> int:
    if not _whole(seed, 0, 2**63 - 1):
        raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1, not {seed!r}")
    return int(seed)


def _control(control, max_seconds: float = math.inf) -> np.ndarray:
    """What another thread or process may write while a run goes on: float64 [2]."""
    if control is None:
        return np.array([max_seconds, 0.0])
    try:
        limits = np.frombuffer(control, np.float64, 2)
    except (TypeError, ValueError, BufferError):
        limits = None
    if limits is None or not limits.flags.writeable:
        raise ValueError("control is a writable buffer of two float64: CPU seconds, and not 0 to stop")
    return limits


def memory_needed(env: str | Path | Environment, params: dict, solve: Solve | dict) -> int:
    """Bytes that one run works in. Raises ConfigError, HeaderError, ValueError."""
    environment = _environment(env)
    solve = _solve(solve, environment)
    return _sizes(environment, _complete(environment, params), solve.episodes)[1]


def _sizes(environment: Environment, full: dict, episodes: int) -> tuple[int, int, int]:
    """Bytes of a run's state and of all its memory, and a fingerprint of what lies where in the state."""
    return _core().sizes(isa(), environment.table_address, full, episodes)


def _check_memory(environment: Environment, full: dict, episodes: int, needed: int) -> None:
    """ConfigError where a run needs more memory than there is. The machine is asked only about sizes that could matter."""
    if needed < 1 << 26 or (free := memory.available()) is None or needed <= free:
        return
    by_episodes = 2 * _sizes(environment, full, 1)[1] < needed
    what = f"{episodes} episodes side by side" if by_episodes else f"{full['envs']} envs over a horizon of {full['horizon']}"
    advice = "fewer episodes" if by_episodes else "fewer envs, a shorter horizon or a smaller network"
    raise config.ConfigError("envs", f"{what} of {environment.name}, hidden {full['hidden']}, would need {memory.words(needed)}; "
                                     f"this machine has {memory.words(free)} free: {advice}")


def _complete(environment: Environment, params: dict, try_from: float = 0.0) -> dict:
    full = config.complete(params, environment.params)
    if unfit := config.unfit(full, not environment.choices, environment.image):
        raise config.ConfigError(*unfit)
    return full | {"try_from": try_from} if full["try_from"] is None else full


def shapes(env: str | Path | Environment, params: dict) -> dict[str, tuple[int, int]]:
    """The network's matrices as [in, out], in the order of a run's weights: encoder, layer0 and so on, decoder.

    A layer's columns are u, f, p of MinGRU, or i, f, g, o of an LSTM, which also has layer0_recurrent; an MLP's first layer
    is the encoder. The decoder's columns are the logits of each discrete action in turn, or the means of continuous ones, then
    the value. With biases each product has one, as encoder_bias [1, out]; with separate_value the value has all of these once
    more, as value_encoder and so on. With encoder "conv" filters [taps, filters] and filters_bias come
    first, a tap being (row, column, channel). Continuous actions have log_std [1, actions], the logarithms of their deviations.
    """
    environment = _environment(env)
    return _shapes(environment, _complete(environment, params))


def _shapes(environment: Environment, full: dict) -> dict[str, tuple[int, int]]:
    inputs, hidden = environment.observation_size + bool(full["constant_input"]), full["hidden"]
    gates = {"mingru": 3, "lstm": 4, "mlp": 1}[full["cell"]] * hidden
    shape_of: dict[str, tuple[int, int]] = {}

    def product(name: str, rows: int, columns: int) -> None:
        shape_of[name] = (rows, columns)
        if full["cell"] == "lstm" and "layer" in name:
            shape_of[f"{name}_recurrent"] = (hidden, columns)
        if full["biases"]:
            shape_of[f"{name}_bias"] = (1, columns)

    actions = environment.actions
    towers = {"": actions, "value_": 1} if full["separate_value"] else {"": actions + 1}
    for tower, outputs in towers.items():
        if full["encoder"] == "conv":
            height, width, channels = environment.image
            shape_of[f"{tower}filters"], shape_of[f"{tower}filters_bias"] = (9 * channels, full["filters"]), (1, full["filters"])
            inputs = (height - 2) * (width - 2) * full["filters"] + bool(full["constant_input"])
        product(f"{tower}encoder", inputs, hidden)
        for i in range(full["layers"] - (full["cell"] == "mlp")):
            product(f"{tower}layer{i}", hidden, gates)
        product(f"{tower}decoder", hidden, outputs)
    if not environment.choices:
        shape_of["log_std"] = (1, actions)
    return shape_of


def network_size(env: str | Path | Environment, params: dict) -> int:
    """The number of trainable parameters. Raises ConfigError, HeaderError."""
    return sum(rows * columns for rows, columns in shapes(env, params).values())


def _split(flat: np.ndarray, normaliser: np.ndarray, shape_of: dict[str, tuple[int, int]]) -> dict[str, np.ndarray]:
    weights, at = {"input_scale": normaliser[0], "input_shift": normaliser[1]}, 0
    for name, (rows, columns) in shape_of.items():
        weights[name] = flat[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
    return weights


def _join(weights: dict[str, np.ndarray], shape_of: dict[str, tuple[int, int]]) -> np.ndarray:
    for name, shape in shape_of.items():
        if name not in weights or weights[name].shape != shape:
            found = weights[name].shape if name in weights else "missing"
            raise ValueError(f"weights {name!r}: {found}; the params ask for {shape}")
    return np.concatenate([np.asarray(weights[name], np.float32).ravel() for name in shape_of])


def train(
    env: str | Path | Environment,
    config: dict,
    seed: int,
    solve: Solve | dict,
    max_seconds: float,
    max_env_steps: int = 0,
    control=None,
    state: bytes | None = None,
    keep_state: bool = False,
    device: str = "cpu",
) -> Run:
    """Trains until the environment is solved or a limit is reached.

    `config`: params, flat, with the trainer's defaults where it is silent. `max_seconds`: CPU seconds of the training
    thread since its first env step (what a neighbour's load disturbs least); `max_env_steps` 0: no limit.
    `control`: a writable buffer of two float64, [CPU seconds, stop where not 0], read once per iteration in place of
    `max_seconds`, so that another thread or process may lower the cap or stop the run.

    With `keep_state` a run that a limit ended has a `state`: give it to another call with the same env, config, seed and
    solve, here or in another process, and the run goes on as if it had not been stopped; its limits count from the run's
    beginning. A limit may cut an iteration short: its work is done again, and its time not counted twice.

    The run is a function of (env, config, seed, solve) but for its seconds and where a limit in seconds cuts it.
    Raises ConfigError, HeaderError, ValueError; MemoryError where the machine has less memory than it said.
    """
    if device != "cpu":
        raise ValueError(f"the device {device!r} is not there; this trainer runs on 'cpu'")
    environment = _environment(env)
    solve = _solve(solve, environment)
    full = _complete(environment, config, solve.target)
    seed = _seed(seed)
    if not max_seconds > 0:
        raise ValueError(f"max_seconds is more than 0, not {max_seconds}")
    if not _whole(max_env_steps or 0, 0, 2**62):
        raise ValueError(f"max_env_steps is a whole number, 0 for no limit, not {max_env_steps!r}")
    limits = _control(control, max_seconds)
    state_size, needed, layout = _sizes(environment, full, solve.episodes)
    _check_memory(environment, full, solve.episodes, needed)
    label = _label(environment, full, seed, solve, layout) if keep_state or state is not None else {}
    body = None if state is None else states.unpack(state, label, state_size)
    arguments = (isa(), environment.table_address, environment.param_bytes(full), full, seed, float(solve.target),
                 solve.metric is not None, int(solve.episodes), solve.policy == "greedy", int(max_env_steps or 0), limits, body, bool(keep_state))
    result = _core().train(*arguments) if control is not None else _interruptible(_core().train, arguments, limits)
    if result["ending"] == "no_memory":
        raise MemoryError(f"no memory: {full['envs']} envs of {environment.name} over a horizon of {full['horizon']} "
                          f"need {memory.words(needed)}; fewer envs, a shorter horizon")
    shape_of = _shapes(environment, full)
    status, reason = _ENDINGS[result.pop("ending")]
    kept = result.pop("state")
    kept = states.pack(label, kept) if kept is not None and status == "censored" else None
    weights = _split(result.pop("weights"), result.pop("normaliser"), shape_of)
    parameters = sum(rows * columns for rows, columns in shape_of.values())
    return Run(status=status, reason=reason, seed=seed, parameters=parameters, weights=weights, state=kept, **result)


def _label(environment: Environment, full: dict, seed: int, solve: Solve, layout: int) -> dict:
    return {"semantics": config.SEMANTICS, "fma": _core().has_fma(isa()), "layout": layout, "env": environment.name,
            "environment": environment.source_hash, "params": full, "seed": seed,
            "solve": {"mean_return" if solve.metric is None else "metric": float(solve.target), "episodes": int(solve.episodes),
                      "policy": solve.policy}}


def _interruptible(function, arguments: tuple, limits: np.ndarray):
    """Calls in a thread of its own, so that Ctrl-C stops the run instead of waiting for its end."""
    if threading.current_thread() is not threading.main_thread():
        return function(*arguments)
    with ThreadPoolExecutor(max_workers=1) as one:
        running = one.submit(function, *arguments)
        try:
            return running.result()
        except BaseException:
            limits[1] = 1.0
            raise


def evaluate(
    env: str | Path | Environment,
    params: dict,
    weights: dict[str, np.ndarray],
    episodes: int = 100,
    seed: int = 0,
    policy: str = "sampled",
    control=None,
) -> dict:
    """Plays `episodes` fresh episodes with a frozen policy: mean_return, returns (float64 [episodes]), env_steps, seconds.

    Also mean_metric and metrics, None where the header has no metric. `weights` as a Run has them. `control` as for `train`. Raises ValueError where the weights do not fit the params.
    """
    environment = _environment(env)
    solve = _solve(Solve(0.0, episodes, policy), environment)
    full = _complete(environment, params)
    seed, limits = _seed(seed), _control(control)
    room = full | {"envs": 4, "minibatches": 1, "horizon": 4}  # nothing but the episodes takes room here
    _check_memory(environment, room, episodes, _sizes(environment, room, episodes)[1])
    flat = _join(weights, _shapes(environment, full))
    normaliser = np.concatenate([weights["input_scale"], weights["input_shift"]]).astype(np.float32)
    start = time.monotonic()
    arguments = (isa(), environment.table_address, environment.param_bytes(full), full, flat, normaliser, seed, episodes,
                 solve.policy == "greedy", limits)
    call = _core().evaluate
    env_steps, returns, metrics = call(*arguments) if control is not None else _interruptible(call, arguments, limits)
    if env_steps == -2:
        raise MemoryError(f"no memory for {episodes} episodes of {environment.name} side by side")
    stopped = env_steps < 0
    return {"mean_return": None if stopped else float(returns.mean()), "returns": None if stopped else returns,
            "mean_metric": None if stopped or metrics is None else float(metrics.mean()), "metrics": None if stopped else metrics,
            "env_steps": None if stopped else env_steps, "seconds": time.monotonic() - start}
