"""Finds environments, and makes single env steps of them from Python."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from trainer_native import headers
from trainer_native.config import HYPERPARAMETERS, ConfigError, Hyperparameter, closest
from trainer_native.headers import HeaderError
from trainer_native.probe import Table, load

NUMPY_TYPES = {"f": "f4", "d": "f8", "i": "i4", "u": "u4", "b": "i1", "B": "u1", "q": "i8", "Q": "u8", "?": "?"}
INPUT = np.dtype([("low", "f4"), ("high", "f4"), ("is_flag", "?"), ("is_open", "?")], align=True)
OUTCOME = np.dtype([("reward", "f4"), ("terminated", "?"), ("truncated", "?")], align=True)
_BOUNDS = np.dtype([("low", "f8"), ("high", "f8")])


_LIBRARIES: list[ctypes.CDLL] = []  # kept open: tables are read for as long as the process lives


@dataclass(frozen=True, eq=False)
class Environment:
    """A game as the trainer plays it. `find` makes one; another process finds it again when it is unpickled."""

    name: str
    source: Path
    source_hash: str  # hex, of the header's text
    observation_size: int
    observation_dtype: np.dtype  # float32 or uint8
    image: tuple[int, int, int] | None  # height, width, channels of an observation that is one
    needs_memory: bool
    actions: int  # outputs of a policy: choices in all, or continuous actions
    choices: tuple[int, ...]  # of each discrete action; () where they are continuous
    action_bounds: np.ndarray = field(repr=False)  # float64 [continuous actions, 2]: low, high
    longest_episode: int  # env steps, with default params
    inputs: np.ndarray = field(repr=False)  # INPUT [observation_size]: low, high, is_flag, is_open
    has_metric: bool
    picture: tuple[float, float] | None  # width, height
    about: str  # the header's first comment, in one line
    params: dict[str, Hyperparameter]
    state_dtype: np.dtype  # the fields of the header's State
    params_dtype: np.dtype
    table_address: int  # of an EnvironmentTable, in this process

    def __reduce__(self):
        return find, (str(self.source),)

    def param_bytes(self, params: dict[str, Any]) -> bytes:
        """The header's Params, filled: with its default where `params` is silent; other hyperparameters are ignored."""
        table = Table.from_address(self.table_address)
        filled = np.frombuffer(ctypes.string_at(table.default_params, table.params_size), self.params_dtype).copy()
        for name, hyperparameter in self.params.items():
            if name in params:
                filled[name] = hyperparameter.check(params[name])
        return filled.tobytes()


def folders() -> list[Path]:
    """Where environments are looked for by name: the user's own first, then those that ship."""
    package = Path(__file__).resolve().parent
    shipped = [folder for folder in (package / "envs", package.parent / "envs") if folder.is_dir()]
    return [Path.cwd() / "envs", *shipped[:1]]


def names() -> list[str]:
    """All environments that can be found by name."""
    return sorted({path.stem for folder in folders() for path in folder.glob("*.h")})


def replacing(name: str) -> Path | None:
    """The user's own header of that name, where it is played in place of one that ships; None elsewhere."""
    own, *shipped = (folder / f"{name}.h" for folder in folders())
    return own if own.is_file() and any(path.is_file() and not path.samefile(own) for path in shipped) else None


def find(env: str | Path | Environment, isa: str | None = None) -> Environment:
    """The environment of that name, or of that header (a path that ends in .h). Raises HeaderError.

    Compiles the header where this machine has not compiled it yet. `isa` is an instruction set as in `machine_isas`.
    """
    if isinstance(env, Environment):
        return env
    path = path_of(env)
    return _load(path, headers.source_hash(path), isa or headers.machine_isas()[0])


def path_of(env: str | Path) -> Path:
    """The header of that name, or at that path, absolute. Raises HeaderError."""
    if isinstance(env, Path) or env.endswith(".h"):
        path = Path(env)
        if not path.is_file():
            raise HeaderError(f"{path}: there is no such file")
    else:
        path = next((folder / f"{env}.h" for folder in folders() if (folder / f"{env}.h").is_file()), None)
        if path is None:
            raise HeaderError(f"{env!r} is not an environment.{closest(env, names())} There are: {', '.join(names())}; "
                              "or give the path of a header, ending in .h")  # fmt: skip
    return path.resolve()


def fields_of(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Field name -> comment, of the header's State and of its Params. Raises HeaderError."""
    name = path.stem
    code = headers.without_comments(headers.read(path))
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or not re.search(rf"\bnamespace\s+{name}\b", code):
        raise HeaderError(f"{path}: a header NAME.h holds `namespace NAME {{...}}`, and NAME is a C++ name; "
                          f"there is no namespace {name!r}")  # fmt: skip
    state, params = headers.fields(path, "State"), headers.fields(path, "Params")
    if not state:
        raise HeaderError(f"{path}: struct State has no fields")
    return state, params


@lru_cache(maxsize=64)
def _load(path: Path, source_hash: str, isa: str) -> Environment:
    state, params = fields_of(path)
    library, address = load(str(headers.build(path, list(state), list(params), isa)))
    _LIBRARIES.append(library)
    table = Table.from_address(address)
    if table.actions > headers.most_actions():
        raise HeaderError(f"{path}: actions is {table.actions}; the trainer takes 2 to {headers.most_actions()}")
    if table.action_count > headers.most_action_count():
        raise HeaderError(f"{path}: an action has {table.action_count} numbers; the trainer takes 1 to {headers.most_action_count()}")
    params_dtype = _dtype(table.params_field, table.params_fields, table.params_size)
    continuous, count = bool(table.action_bounds), table.action_count
    return Environment(
        path.stem, path, source_hash, table.observation_size, np.dtype(np.uint8 if table.observation_bytes else np.float32),
        tuple(table.image) if table.image[0] else None, bool(table.needs_memory), table.actions,
        () if continuous else tuple(table.choices[:count]),
        np.array([(b.low, b.high) for b in table.action_bounds[:count]] if continuous else []).reshape(-1, 2),
        table.longest_episode,
        np.frombuffer(ctypes.string_at(table.inputs, table.observation_size * INPUT.itemsize), INPUT),
        bool(table.metric), tuple(table.picture) if table.picture[0] else None, headers.first_comment(path),
        _hyperparameters(path, table, params_dtype, params),
        _dtype(table.state_field, table.state_fields, table.state_size), params_dtype, address,
    )  # fmt: skip


def _dtype(described, count: int, size: int) -> np.dtype:
    fields = [described[i] for i in range(count)]
    return np.dtype({
        "names": [f.name.decode() for f in fields],
        "formats": [(NUMPY_TYPES[f.type.decode()], (f.count,) if f.count > 1 else ()) for f in fields],
        "offsets": [f.offset for f in fields],
        "itemsize": size,
    })  # fmt: skip


def _hyperparameters(path: Path, table: Table, dtype: np.dtype, comments: dict[str, str]) -> dict[str, Hyperparameter]:
    defaults = np.frombuffer(ctypes.string_at(table.default_params, table.params_size), dtype)[0]
    bounds = np.frombuffer(ctypes.string_at(table.params_bounds or 0, table.params_fields * _BOUNDS.itemsize), _BOUNDS)
    found = {}
    for (name, what), (low, high) in zip(comments.items(), bounds.tolist(), strict=True):
        where = f"{path}: the field {name!r} of Params"
        if dtype[name].shape:
            raise HeaderError(f"{where} is an array; a hyperparameter is one number")
        if name in HYPERPARAMETERS:
            raise HeaderError(f"{where} has the name of a hyperparameter of the trainer; name it otherwise")
        default = defaults[name].item()
        if dtype[name] == np.float32:
            default, low, high = map(_shortest, (default, low, high))
        if not low <= default <= high:
            raise HeaderError(f"{where} has the default {default:g}, outside its bounds {low:g} to {high:g}")
        found[name] = Hyperparameter(name, "environment", default, what, low, high)
    return found


def _shortest(x: float) -> float:
    """0.01 for 0.01f, which is 0.009999999776482582: the shortest number that is the same float32, where x is one."""
    with np.errstate(over="ignore"):
        return float(str(np.float32(x))) if float(np.float32(x)) == x else x


def _stream(seed: int, number: int = 0) -> int:  # sweep::stream in core/rng.h
    mask = (1 << 64) - 1

    def mix(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return z ^ (z >> 31)

    return mix((mix((seed + 0x9E3779B97F4A7C15) & mask) + number * 0xD1342543DE82EF95) & mask)


def _prepare(env: str | Path | Environment, seed: int, params: dict[str, Any]):
    env = find(env)
    for name in params:
        if name not in env.params:
            raise ConfigError(name, f"{name!r} is not a hyperparameter of {env.name}.{closest(name, env.params)}")
    return env, Table.from_address(env.table_address), env.param_bytes(params), np.array([_stream(seed)], np.uint64)


def initial_state(env: str | Path | Environment, seed: int = 0, **params: Any) -> np.void:
    """The state in which an episode begins; fields as in the header's State."""
    env, table, filled, rng = _prepare(env, seed, params)
    states = np.zeros(1, env.state_dtype)
    table.reset(states.ctypes.data, filled, rng.ctypes.data, 1)
    return states[0]


def observation(env: str | Path | Environment, state: np.void, **params: Any) -> np.ndarray:
    """What an agent sees of a state: float32 or uint8 [observation_size], in the header's units."""
    env, table, filled, _ = _prepare(env, 0, params)
    states, seen = _states(env, state), np.zeros(env.observation_size, env.observation_dtype)
    table.observe(states.ctypes.data, filled, seen.ctypes.data, env.observation_size, 1)
    return seen


def transition(
    env: str | Path | Environment, state: np.void, action: int | Sequence[float], seed: int = 0, **params: Any
) -> tuple[np.void, float, bool, bool, np.ndarray]:
    """One env step: (state, reward, terminated, truncated, observation). `action`: as many numbers as the header takes.

    Where the episode ended, `state` is the first one of the next episode, and `observation` is still the last one of
    the episode that ended: a truncated episode is bootstrapped from it. `state` itself is left as it was.
    """
    env, table, filled, rng = _prepare(env, seed, params)
    states, actions, outcome = _states(env, state), legal_actions(env, np.asarray(action)[None]), np.zeros(1, OUTCOME)
    seen = np.zeros(env.observation_size, env.observation_dtype)
    table.step(states.ctypes.data, filled, actions.ctypes.data, rng.ctypes.data, outcome.ctypes.data, 1)
    table.observe(states.ctypes.data, filled, seen.ctypes.data, env.observation_size, 1)
    reward, terminated, truncated = outcome[0].item()
    if terminated or truncated:
        table.reset(states.ctypes.data, filled, rng.ctypes.data, 1)
    return states[0], reward, terminated, truncated, seen


def legal_actions(env: Environment, actions: np.ndarray) -> np.ndarray:
    """n actions as the header's step takes them, int32 or float32 [n, numbers]. ValueError where one is not legal."""
    count = len(env.choices) or len(env.action_bounds)
    if actions.shape != (len(actions), count) and (count > 1 or actions.shape != (len(actions),)):
        raise ValueError(f"actions have the shape {actions.shape}; {env.name} takes {count} number{'s' * (count > 1)} for each env step")
    actions = actions.reshape(-1, count)
    if len(env.action_bounds):
        low, high = env.action_bounds.T
        if actions.dtype.kind not in "iuf" or not ((low <= actions) & (actions <= high)).all():   # nor NaN
            spans = ", ".join(f"{a:g} to {b:g}" for a, b in env.action_bounds)
            raise ValueError(f"action is {_shown(actions)}; legal is a number from {spans}")
        return np.ascontiguousarray(actions, np.float32)
    if actions.dtype.kind not in "iub" or not ((actions >= 0) & (actions < np.array(env.choices))).all():
        spans = ", ".join(f"0 to {choices - 1}" for choices in env.choices)
        raise ValueError(f"action is {_shown(actions)}; legal is a whole number from {spans}")
    return np.ascontiguousarray(actions, np.int32)


def _shown(actions: np.ndarray) -> str:
    return str(actions.ravel().tolist()[0]) if actions.size == 1 else f"{actions.tolist()[:4]}"


def _states(env: Environment, state: np.void) -> np.ndarray:
    state = np.asarray(state)
    if state.dtype != env.state_dtype or state.size != 1:
        raise ValueError(f"state is not one State of {env.name}: make it with initial_state({env.name!r})")
    return state.reshape(1).copy()
