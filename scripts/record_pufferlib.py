"""Records PufferLib 3.0's own C games, whole episodes, into tests/golden/{squared,snake,freeway}.npz.

    python scripts/record_pufferlib.py pufferlib-3.0.0/ [GAME ...]

takes the path of its unpacked source package. Its headers are compiled as they are but for PATCHES, beside an empty raylib.h, in a
temporary folder; C's `rand` is seeded with the episode's number. What an array holds is told in tests/golden/README.md.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

OUT = Path(__file__).parents[1] / "tests" / "golden"
RAYLIB = """
#pragma once
#include <stdbool.h>
typedef struct { unsigned char r, g, b, a; } Color;
typedef struct { float x, y; } Vector2;
typedef struct { float x, y, width, height; } Rectangle;
typedef struct { int id; } Texture2D;
Texture2D LoadTexture(const char* path);
const char* TextFormat(const char* text, ...);
bool IsKeyDown(int); bool IsKeyPressed(int); bool IsWindowReady(void);
enum { KEY_ESCAPE, KEY_TAB };
#define WHITE (Color){255, 255, 255, 255}
#define BLACK (Color){0, 0, 0, 255}
"""
#: Freeway changes the cars' speeds through a pointer that it has not set yet (undefined behaviour; here it then never did).
PATCHES = {"freeway": {"void randomize_enemy_speed(Freeway* env) {\n    FreewayEnemy* enemy;":
                       "void randomize_enemy_speed(Freeway* env) {\n    FreewayEnemy* enemy = env->enemies;"}}  # fmt: skip
#: Around each header: `begin` makes a fresh game, `look` writes its state as numbers, `advance` makes one env step.
GLUE = """
#include <string.h>
#include "{header}"
static {type} game;
static float rewards[1];
static unsigned char terminals[1];
static {action} actions[1];
static {seen} observations[{size}];
#define SHOWN __attribute__((visibility("default")))
SHOWN void begin(unsigned seed, const int* with) {{
    srand(seed);
    memset(&game, 0, sizeof game);
    game.rewards = rewards; game.terminals = terminals; game.actions = actions; game.observations = observations;
    {begin}
    c_reset(&game);
}}
SHOWN void look(double* to, double* seen) {{
    {look}
    for (int i = 0; i < {size}; i++) seen[i] = observations[i];
}}
SHOWN double advance(int action, int* terminal) {{
    actions[0] = action;
    c_step(&game);
    *terminal = terminals[0];
    return rewards[0];
}}
"""


class Game:
    """One of PufferLib's games, compiled; `numbers` is how many its `look` writes."""

    def __init__(self, source: Path, name: str, numbers: int, **parts):
        self.size, self.numbers = parts["size"], numbers
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "raylib.h").write_text(RAYLIB)
            text = (source / name / f"{name}.h").read_text()
            for old, new in PATCHES.get(name, {}).items():
                assert text.count(old) == 1, (name, old)
                text = text.replace(old, new)
            (Path(folder) / f"{name}.h").write_text(text)
            (Path(folder) / "glue.c").write_text(GLUE.format(header=f"{name}.h", **parts))
            library = Path(folder) / "game.so"
            subprocess.run(["gcc", "-w", "-O1", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden",
                            "-ffunction-sections", "-Wl,--gc-sections", "-I", folder, "-I", source / name, str(Path(folder) / "glue.c"), "-o", library, "-lm"], check=True)  # fmt: skip
            self.library = ctypes.CDLL(str(library))
        self.library.advance.restype = ctypes.c_double

    def begin(self, seed: int, *params: int) -> None:
        self.library.begin(seed, (ctypes.c_int * 8)(*params))

    def look(self) -> tuple[np.ndarray, np.ndarray]:
        """Its state, and what is observed."""
        to, seen = (ctypes.c_double * self.numbers)(), (ctypes.c_double * self.size)()
        self.library.look(to, seen)
        return np.array(to), np.array(seen)

    def advance(self, action: int) -> tuple[float, bool]:
        terminal = ctypes.c_int()
        return self.library.advance(int(action), ctypes.byref(terminal)), bool(terminal.value)


def episode(
    game: Game,
    policy: Callable,
    rng: np.random.Generator,
    most: int,
    ends: Callable = lambda reward, terminal: terminal,
) -> dict:
    """Columns of one episode from where the game stands, `most` env steps at most; `state` and `seen` are those before."""
    rows = []
    for _ in range(most):
        state, seen = game.look()
        action = policy(state, rng)
        reward, terminal = game.advance(action)
        rows.append((state, seen, action, reward, terminal))
        if ends(reward, terminal):
            break
    else:
        state, seen = game.look()
        rows.append((state, seen, 255, 0, False))  # the state after the last one
    return dict(
        zip(("state", "seen", "action", "reward", "terminal"), map(np.array, zip(*rows, strict=True)), strict=True)
    )


def joined(episodes: list[dict]) -> dict:
    columns = {name: np.concatenate([one[name] for one in episodes]) for name in episodes[0]}
    columns["first"] = np.concatenate([np.arange(len(one["action"])) == 0 for one in episodes])
    return columns | {"action": columns["action"].astype(np.uint8), "reward": columns["reward"].astype(np.float32)}


def save(name: str, **columns: np.ndarray) -> None:
    path = OUT / f"{name}.npz"
    np.savez_compressed(path, **columns)
    print(
        f"{path.name}: {len(columns['action'])} rows, {columns['first'].sum()} episodes, {path.stat().st_size / 1024:.0f} kB"
    )


# -- squared -------------------------------------------------------------------------------------------------


def squared(source: Path) -> None:
    game = Game(source, "squared", 4, type="Squared", action="int", seen="unsigned char", size=121, begin="game.size = 11;", look="""
        to[0] = game.r; to[1] = game.c; to[2] = game.tick; to[3] = -1;
        for (int i = 0; i < 121; i++) if (observations[i] == TARGET) to[3] = i;""")  # fmt: skip

    def walk(state: np.ndarray, rng: np.random.Generator) -> int:
        row, column, _, target = state.astype(int)
        towards = [
            a
            for a, yes in (
                (1, target // 11 > row),
                (2, target // 11 < row),
                (3, target % 11 < column),
                (4, target % 11 > column),
            )
            if yes
        ]
        return rng.choice(towards) if rng.random() < skill else rng.integers(5)

    rng, episodes = np.random.default_rng(0), []
    for seed in range(400):
        skill = (0.0, 0.3, 0.6, 0.9)[seed % 4]
        game.begin(seed)
        episodes.append(episode(game, walk, rng, 100))
    got = joined(episodes)
    save("squared", **got | {"state": got["state"].astype(np.int8), "seen": got["seen"].astype(np.uint8)})


# -- snake ---------------------------------------------------------------------------------------------------


def snake(source: Path) -> None:
    game = Game(source, "snake", 3 + 512 + 676, type="CSnake", action="int", seen="char", size=121, begin="""
        game.num_snakes = 1; game.width = game.height = 26; game.max_snake_length = 256; game.food = with[0]; game.vision = 5;
        game.reward_food = game.reward_corpse = 0.1f; game.reward_death = -1.0f;
        init_csnake(&game);""", look="""
        to[0] = game.snake_lengths[0]; to[1] = game.snake_ptr[0]; to[2] = game.food;
        for (int i = 0; i < 512; i++) to[3 + i] = game.snake[i];
        for (int i = 0; i < 676; i++) to[515 + i] = game.grid[i];""")  # fmt: skip

    def hunt(state: np.ndarray, rng: np.random.Generator) -> int:
        grid, body, head = state[515:].reshape(26, 26), state[3:515].reshape(256, 2), int(state[1])
        if rng.random() > skill:
            return rng.integers(4)
        row, column = body[head].astype(int)
        rows, columns = np.nonzero(grid == 1)
        near = np.argmin(abs(rows - row) + abs(columns - column))
        ways = {0: (-1, 0), 1: (1, 0), 2: (0, -1), 3: (0, 1)}
        far = {
            a: abs(rows[near] - row - r) + abs(columns[near] - column - c) + 1000 * (grid[row + r, column + c] >= 3)
            for a, (r, c) in ways.items()
        }
        return min(far, key=lambda a: (far[a], rng.random()))

    rng, episodes = np.random.default_rng(0), []
    for seed in range(48):
        skill = (0.1, 0.9, 0.99, 1.0)[seed % 4]
        game.begin(seed, (1, 4, 8, 32)[seed // 4 % 4])
        episodes.append(episode(game, hunt, rng, 1000, ends=lambda reward, terminal: reward < 0))
    got = joined(episodes)
    state, seen = got.pop("state").astype(np.int16), got.pop("seen").astype(np.uint8)
    save("snake", **got, length=state[:, 0], head=state[:, 1], foods=state[:, 2].astype(np.uint8), seen=seen,
         body=state[:, 3:515].astype(np.int8), grid=state[:, 515:].astype(np.uint8))  # fmt: skip


# -- freeway -------------------------------------------------------------------------------------------------


def freeway(source: Path) -> None:
    game = Game(source, "freeway", 5 + 30 + 10, type="Freeway", action="int", seen="float", size=34, begin="""
        game.level = with[0]; game.difficulty = with[1]; game.frameskip = 4; game.width = 1216; game.height = 720;
        game.player_width = game.player_height = 64; game.car_width = 64; game.car_height = 40; game.lane_size = 64;
        game.use_dense_rewards = 1; game.env_randomization = 1;
        init(&game);""", look="""
        to[0] = game.ai_player.player_y; to[1] = game.ai_player.best_lane_idx; to[2] = game.ai_player.ticks_stunts_left;
        to[3] = game.ai_player.score; to[4] = game.tick;
        for (int i = 0; i < 30; i++) to[5 + i] = game.enemies[i].enemy_x;
        for (int i = 0; i < 10; i++) to[35 + i] = game.enemies[3 * i].current_speed_idx;""")  # fmt: skip

    def cross(state: np.ndarray, rng: np.random.Generator) -> int:
        return 1 if rng.random() < skill else rng.integers(3)

    rng, episodes, params = np.random.default_rng(0), [], []
    for seed in range(24):
        skill = (0.4, 0.9, 1.0)[seed % 3]
        level, difficulty = seed % 8, int(seed >= 16)
        game.begin(seed, level, difficulty)
        episodes.append(episode(game, cross, rng, 5000))
        params.append((level, difficulty))
    got = joined(episodes)
    state, seen = got.pop("state"), got.pop("seen").astype(np.float32)
    often = (state[:, 4] % 240 == 0) | np.roll(got["first"], -1)
    save("freeway", **got, params=np.array(params, np.uint8), player_y=state[:, 0].astype(np.float32),
         lane=state[:, 1].astype(np.uint8), stunned=state[:, 2].astype(np.uint8), score=state[:, 3].astype(np.uint8),
         frames=state[:, 4].astype(np.int16), speed=state[:, 35:].astype(np.uint8), often=often,
         car_x=state[often, 5:35].astype(np.float32), seen=seen[often])  # fmt: skip


def main() -> None:
    source = Path(sys.argv[1]) / "pufferlib" / "ocean"
    games = {"squared": squared, "snake": snake, "freeway": freeway}
    for name in sys.argv[2:] or games:
        games[name](source)


if __name__ == "__main__":
    main()
