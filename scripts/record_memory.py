"""Records whole episodes of the memory, exploration and bandit games from those who defined them, for tests/golden.

    python scripts/record_memory.py bsuite | gymnax | popgym | pufferlib --source FOLDER

Each reference runs in an environment of its own (bsuite 0.3.6; gymnax 1.0.1 on JAX 0.10; popgym 1.0.7); PufferLib's memory is
compiled from a folder that holds its ocean/memory/memory.h (commit ca74e12), without its window. Writes
tests/golden/memory_REFERENCE.npz. A game's arrays are named GAME_FIELD and have one row per env step, episode after episode:
`action`, `reward`, `terminated`, `truncated`, `observation` (after the step), `before` (before it), and what is hidden.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections import defaultdict
from importlib import metadata
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
MEMORY_LENGTHS = (1, 2, 5, 20)
SEA_SIZES = (2, 7, 10, 20)


class Recording:
    """Rows of several games, to one file."""

    def __init__(self):
        self.rows = defaultdict(list)

    def add(self, game: str, **row) -> None:
        for name, value in row.items():
            self.rows[f"{game}_{name}"].append(value)

    def save(self, name: str, about: str) -> None:
        columns = {name: smallest(np.array(rows)) for name, rows in self.rows.items()}
        path = GOLDEN / f"memory_{name}.npz"
        np.savez_compressed(path, about=about, **columns)
        print(f"{path}: {path.stat().st_size} bytes; {about}")
        for column, values in columns.items():
            print(f"  {column}: {values.dtype} {values.shape}")


def smallest(values: np.ndarray) -> np.ndarray:
    """The same numbers in the narrowest type that holds them exactly."""
    if values.dtype == np.bool_:
        return values
    for kind in (np.int8, np.int16, np.int32, np.float32):
        narrow = values.astype(kind)
        if (narrow == values).all():
            return narrow
    return values


def place(grid: np.ndarray) -> int:
    """Where a flattened grid of one 1 has it; -1 where it is empty."""
    assert grid.sum() in (0, 1)
    return int(np.flatnonzero(grid)[0]) if grid.any() else -1


def bsuite() -> None:
    from bsuite.environments.deep_sea import DeepSea
    from bsuite.environments.memory_chain import MemoryChain

    kept, rng = Recording(), np.random.default_rng(1)
    for length in MEMORY_LENGTHS:
        env = MemoryChain(length, seed=length)
        for _ in range(10):
            step, t = env.reset(), 0
            while not step.last():
                row = {"length": length, "steps": t, "bit": env._context[0], "before": step.observation[0], "action": int(rng.integers(2))}
                step, t = env.step(row["action"]), t + 1
                kept.add("chain", **row, observation=step.observation[0], reward=step.reward, terminated=step.last())
    for size in SEA_SIZES:
        for stochastic in (False, True):
            env = DeepSea(size, deterministic=not stochastic, seed=size, mapping_seed=42)
            right_bias = (0.5, 0.9, 1.0)
            for episode in range(60 if stochastic else 12):
                step = env.reset()
                while not step.last():
                    right = bool(rng.random() < right_bias[episode % 3])
                    mapped = int(env._action_mapping[env._row, env._column])
                    row = {"size": size, "stochastic": stochastic, "row": env._row, "column": env._column,
                           "strayed": env._bad_episode, "before": place(step.observation), "right": right}
                    step = env.step(mapped if right else 1 - mapped)
                    kept.add("sea", **row, observation=place(step.observation), reward=step.reward, terminated=step.last(),
                             column_after=int(env._column), strayed_after=env._bad_episode)
    kept.save("bsuite", f"bsuite {metadata.version('bsuite')}, numpy {np.__version__}")


def gymnax() -> None:
    import jax
    from gymnax.environments.bsuite.deep_sea import DeepSea
    from gymnax.environments.bsuite.memory_chain import MemoryChain
    from gymnax.environments.misc.bernoulli_bandit import BernoulliBandit

    kept, rng = Recording(), np.random.default_rng(2)

    def episode(env, params, key, choose, keep):
        observation, state = env.reset(key, params)
        ended = False
        while not ended:
            key, own = jax.random.split(key)
            action = choose(state)
            after_observation, after, reward, terminated, truncated, info = env.step(own, state, action, params)
            ended = bool(terminated or truncated)
            last = info["final_observation"] if ended else after_observation
            keep(state, observation, action, last, reward, terminated, truncated)
            observation, state = after_observation, after

    for length in MEMORY_LENGTHS:
        env = MemoryChain()
        params = env.default_params.replace(memory_length=length)

        def chain(state, before, action, observation, reward, terminated, truncated, length=length):
            kept.add("chain", length=length, steps=int(state.time), bit=int(state.context[0]), before=np.asarray(before),
                     action=action, observation=np.asarray(observation), reward=float(reward), terminated=bool(terminated),
                     truncated=bool(truncated))

        for seed in range(10):
            episode(env, params, jax.random.key(seed), lambda state: int(rng.integers(2)), chain)
    for size in (7, 10):
        env = DeepSea(size)
        params = env.default_params
        for seed in range(8):
            likely = (0.5, 0.9, 1.0)[seed % 3]
            choice = []

            def choose(state, likely=likely, choice=choice):
                choice[:] = [bool(rng.random() < likely)]
                mapped = int(state.action_mapping[int(state.row), int(state.column)])
                return mapped if choice[0] else 1 - mapped

            def sea(state, before, action, observation, reward, terminated, truncated, size=size, choice=choice):
                kept.add("sea", size=size, row=int(state.row), column=int(state.column), strayed=bool(state.bad_episode),
                         before=place(np.asarray(before).ravel()), right=choice[0], reward=float(reward),
                         observation=place(np.asarray(observation).ravel()), terminated=bool(terminated), truncated=bool(truncated))

            episode(env, params, jax.random.key(seed), choose, sea)
    for chance in (0.1, 0.3):
        env = BernoulliBandit()
        params = env.default_params.replace(reward_prob=chance)

        def bandit(state, before, action, observation, reward, terminated, truncated, chance=chance):
            kept.add("bandit", chance=chance, better=int(np.argmax(state.reward_probs)), last_action=int(state.last_action),
                     last_reward=int(state.last_reward), steps=int(state.time), before=np.asarray(before), action=action,
                     observation=np.asarray(observation), reward=int(reward), terminated=bool(terminated), truncated=bool(truncated))

        for seed in range(20):
            episode(env, params, jax.random.key(seed), lambda state: int(rng.integers(2)), bandit)
    kept.save("gymnax", f"gymnax {metadata.version('gymnax')}, jax {jax.__version__}, numpy {np.__version__}")


def popgym() -> None:
    from popgym.envs import repeat_previous as games

    kept, rng = Recording(), np.random.default_rng(3)
    for make, episodes in ((games.RepeatPreviousEasy, 40), (games.RepeatPreviousMedium, 6), (games.RepeatPreviousHard, 4)):
        for seed in range(episodes):
            env = make()
            seen, terminated, number = [env.reset(seed=seed)[0]], False, len(kept.rows["cards_k"])
            while not terminated:
                know = len(seen) >= env.k and rng.random() < 0.5   # half of the answers are right for sure
                action = int(seen[-env.k]) if know else int(rng.integers(4))
                observation, reward, terminated, truncated, _ = env.step(action)
                kept.add("cards", k=env.k, decks=env.deck.num_decks, episode=number, before=seen[-1], action=action,
                         observation=observation, reward=reward, terminated=bool(terminated), truncated=bool(truncated))
                seen.append(observation)
    kept.save("popgym", f"popgym {metadata.version('popgym')}, numpy {np.__version__}")


def pufferlib(source: Path) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        text = (source / "memory.h").read_text().split("void c_render")[0]
        (folder / "memory.h").write_text(text.replace('#include "raylib.h"', "typedef struct { unsigned char r, g, b, a; } Color;"))
        (folder / "memory.c").write_text('#include "memory.h"\n')
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / "memory.so"), str(folder / "memory.c")], check=True)
        game = ctypes.CDLL(str(folder / "memory.so"))
    ctypes.CDLL(None).srand(4)
    observation, action, reward = (ctypes.c_float * 1)(), (ctypes.c_int * 1)(), (ctypes.c_float * 1)()
    terminal = (ctypes.c_ubyte * 1)()

    class Memory(ctypes.Structure):
        _fields_ = [("score", ctypes.c_float), ("n", ctypes.c_float), ("observations", ctypes.POINTER(ctypes.c_float)),
                    ("actions", ctypes.POINTER(ctypes.c_int)), ("rewards", ctypes.POINTER(ctypes.c_float)),
                    ("terminals", ctypes.POINTER(ctypes.c_ubyte)), ("length", ctypes.c_int), ("goal", ctypes.c_int),
                    ("tick", ctypes.c_int)]  # fmt: skip

    kept, rng = Recording(), np.random.default_rng(4)
    for length in (1, 4, 16):
        env = Memory(0, 0, observation, action, reward, terminal, length, 0, 0)
        game.c_reset(ctypes.byref(env))
        for _ in range(40):
            ended = False
            while not ended:
                action[0] = int(rng.integers(2))
                row = {"length": length, "sign": env.goal, "steps": env.tick, "before": observation[0], "action": action[0]}
                game.c_step(ctypes.byref(env))
                ended = bool(terminal[0])
                # where an episode ended, PufferLib shows the first observation of the next
                kept.add("memory", **row, observation=0.0 if ended else observation[0], reward=reward[0], terminated=ended)
    kept.save("pufferlib", "PufferLib ocean/memory, commit ca74e12")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", choices=["bsuite", "gymnax", "popgym", "pufferlib"])
    parser.add_argument("--source", type=Path, help="the folder of PufferLib's memory.h")
    options = parser.parse_args()
    if options.reference == "pufferlib":
        if options.source is None:
            parser.error("pufferlib needs --source, the folder of its memory.h")
        pufferlib(options.source)
    else:
        {"bsuite": bsuite, "gymnax": gymnax, "popgym": popgym}[options.reference]()


if __name__ == "__main__":
    main()
