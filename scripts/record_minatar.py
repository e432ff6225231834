"""Records whole episodes of MinAtar's games, for tests/golden.

    python scripts/record_minatar.py minatar      (in an environment with MinAtar 1.0.15)
    python scripts/record_minatar.py gymnax       (gymnax 1.0.1: its Breakout-MinAtar only)

Writes tests/golden/minatar_GAME.npz. One row per env step and one more per episode for its last state: the state in the
names of our header before the env step, the action asked for and the one taken (they are sticky), the reward, whether the
episode ended, and the 10 x 10 x C observation of that state. Half of the episodes are played at random, half by rules that look
a few env steps ahead, so that late and rare things happen.
"""

from __future__ import annotations

import argparse
import copy
from collections import defaultdict
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
#: Of each game: its minimal actions, and how many episodes are played at random and by rules, of how many env steps at most.
GAMES = {
    "asterix": ([0, 1, 2, 3, 4], 30, 10, 1500),
    "breakout": ([0, 1, 3], 60, 16, 900),
    "freeway": ([0, 2, 4], 1, 3, 3000),
    "seaquest": ([0, 1, 2, 3, 4, 5], 40, 18, 700),
    "space_invaders": ([0, 1, 3, 5], 25, 10, 700),
}


# -- a game's state in our names ---------------------------------------------------------------------------------


def of_breakout(g):
    bricks = sum(1 << (10 * (row - 1) + column) for row in (1, 2, 3) for column in range(10) if g.brick_map[row, column])
    return {"ball_x": g.ball_x, "ball_y": g.ball_y, "ball_dir": g.ball_dir, "last_x": g.last_x, "last_y": g.last_y,
            "pos": g.pos, "strike": g.strike, "bricks": bricks}  # fmt: skip


def of_asterix(g):
    whats = [(2 if e[3] else 1, e[0], e[2]) if e else (0, 0, 0) for e in g.entities]
    kind, x, right = zip(*whats, strict=True)
    return {"player_x": g.player_x, "player_y": g.player_y, "spawn_speed": g.spawn_speed, "spawn_timer": g.spawn_timer,
            "move_speed": g.move_speed, "move_timer": g.move_timer, "ramp_timer": g.ramp_timer, "ramp_index": g.ramp_index,
            "kind": kind, "x": x, "right": right}  # fmt: skip


def of_freeway(g):
    return {"pos": g.pos, "move_timer": g.move_timer, "time_left": g.terminate_timer, "x": [c[0] for c in g.cars],
            "wait": [c[2] for c in g.cars], "speed": [abs(c[3]) for c in g.cars], "right": [c[3] > 0 for c in g.cars]}  # fmt: skip


def of_seaquest(g):
    def column(things, room, what):
        return [what(t) for t in things] + [0] * (room - len(things))

    def cell(t):
        return 10 * t[1] + t[0]

    def at(index):
        return lambda t: t[index]

    state = {"x": g.sub_x, "y": g.sub_y, "right": g.sub_or, "oxygen": g.oxygen, "aboard": g.diver_count, "surfaced": g.surface,
             "shot_timer": g.shot_timer, "spawn_timer": g.e_spawn_timer, "diver_timer": g.d_spawn_timer,
             "spawn_speed": g.e_spawn_speed, "move_speed": g.move_speed, "ramp_index": g.ramp_index}  # fmt: skip
    for count, name, things, room in (("shots", "shot", g.f_bullets, 4), ("bullets", "bullet", g.e_bullets, 32),
                                      ("fish", "fish", g.e_fish, 32), ("subs", "sub", g.e_subs, 32),
                                      ("divers", "diver", g.divers, 4)):  # fmt: skip
        state[count] = len(things)
        state[f"{name}_at"], state[f"{name}_right"] = column(things, room, cell), column(things, room, at(2))
        if name in ("fish", "sub", "diver"):
            state[f"{name}_wait"] = column(things, room, at(3))
    return state | {"sub_reload": column(g.e_subs, 32, at(4))}


def of_space_invaders(g):
    def bits(plane):
        flags = np.asarray(plane).astype(bool).reshape(2, 50)
        return [sum(1 << i for i in np.flatnonzero(half)) for half in flags.tolist() for half in [np.array(half)]]

    return {"aliens": bits(g.alien_map), "shots": bits(g.f_bullet_map), "bullets": bits(g.e_bullet_map), "pos": g.pos,
            "shot_timer": g.shot_timer, "alien_dir": g.alien_dir, "move_interval": g.enemy_move_interval,
            "move_timer": g.alien_move_timer, "bullet_timer": g.alien_shot_timer}  # fmt: skip


STATE_OF = {"breakout": of_breakout, "asterix": of_asterix, "freeway": of_freeway, "seaquest": of_seaquest,
            "space_invaders": of_space_invaders}  # fmt: skip


# -- what the players by rules would like to do, in MinAtar's six actions: stay, left, up, right, down, fire ------------


def towards(x, y, to_x, to_y):
    return 2 if to_y < y else 4 if to_y > y else 1 if to_x < x else 3 if to_x > x else 0


def wish_breakout(g, rng):
    return towards(g.pos, 0, g.ball_x, 0)


def wish_asterix(g, rng):
    gold = [e for e in g.entities if e and e[3]]
    if not gold:
        return 0
    nearest = min(gold, key=lambda e: abs(e[0] - g.player_x) + abs(e[1] - g.player_y))
    return towards(g.player_x, g.player_y, nearest[0], nearest[1])


def wish_freeway(g, rng):
    return 2


def wish_seaquest(g, rng):
    if g.stays_down:
        return 4 if g.sub_y < 3 else 5 if g.shot_timer == 0 else int(rng.choice([1, 3]))
    if g.oxygen < 12 + g.sub_y * 2 and g.diver_count != 0 or g.diver_count == 6 or (g.diver_count < 0 and g.oxygen < 60):
        return 2
    if g.shot_timer == 0 and any(e[1] == g.sub_y and (e[0] > g.sub_x) == g.sub_or for e in g.e_fish + g.e_subs):
        return 5
    if g.divers and g.diver_count < 6:
        nearest = min(g.divers, key=lambda d: abs(d[0] - g.sub_x) + abs(d[1] - g.sub_y))
        return towards(g.sub_x, g.sub_y, nearest[0], nearest[1])
    return int(rng.choice([1, 3, 4, 5]))


def wish_space_invaders(g, rng):
    columns = np.flatnonzero(g.alien_map.any(0))
    target = int(np.clip(columns[np.abs(columns - g.pos).argmin()] + g.alien_dir, 0, 9))
    return 5 if g.shot_timer == 0 and abs(target - g.pos) <= 1 else towards(g.pos, 0, target, 0)


WISH = {"breakout": wish_breakout, "asterix": wish_asterix, "freeway": wish_freeway, "seaquest": wish_seaquest,
        "space_invaders": wish_space_invaders}  # fmt: skip


def survives(game, action):
    """Whether the game goes on for some env steps after this action."""
    ahead = copy.copy(game)
    for name in ("entities", "f_bullets", "e_bullets", "e_fish", "e_subs", "divers"):
        if hasattr(game, name):
            setattr(ahead, name, copy.deepcopy(getattr(game, name)))
    for name in ("alien_map", "f_bullet_map", "e_bullet_map"):
        if hasattr(game, name):
            setattr(ahead, name, getattr(game, name).copy())
    ahead.random = np.random.RandomState(0)
    return not any(ahead.act(a)[1] for a in (action, 0, 0))


def choose(name, game, actions, rng):
    wish = WISH[name](game, rng)
    if name in ("breakout", "freeway") or survives(game, wish):
        return wish
    return next((a for a in rng.permutation(actions) if survives(game, a)), wish)


def played(name, seed, rule, most, kept):
    """One episode, row by row, into `kept`."""
    from minatar import Environment

    env = Environment(name, sticky_action_prob=0.0 if rule and seed % 2 else 0.1)
    env.seed(seed)
    env.reset()
    actions, rng, game = GAMES[name][0], np.random.default_rng(seed), env.env
    game.stays_down = seed % 5 == 0  # in Seaquest, until the oxygen is out
    stray = (0.0, 0.02, 0.1)[seed % 3]  # of a player by rules; in Breakout and Freeway it would else never fail
    for step in range(most + 1):
        row = STATE_OF[name](game) | {"observation": np.packbits(game.state()), "episode": seed}
        ended = game.terminal or step == most
        asked = 0 if ended else int(choose(name, game, actions, rng) if rule and rng.random() >= stray else rng.choice(actions))
        reward, terminal = (0, game.terminal) if ended else env.act(asked)
        row |= {"asked": actions.index(asked), "action": 0 if ended else actions.index(env.last_action), "reward": reward,
                "terminated": terminal and not ended, "last": ended}  # fmt: skip
        for column, value in row.items():
            kept[column].append(value)
        if ended:
            break


def smallest(values):
    """The same numbers in the narrowest type that holds them exactly."""
    if values.dtype in (np.bool_, np.uint8):
        return values
    kinds = (np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64)
    return next(values.astype(kind) for kind in kinds if (values.astype(kind).astype(object) == values.astype(object)).all())


def save(name, kept, about):
    columns = {column: smallest(np.array(values)) for column, values in kept.items()}
    path = GOLDEN / f"minatar_{name}.npz"
    np.savez_compressed(path, about=about, **columns)
    rewards = np.bincount(columns["episode"], columns["reward"])
    print(f"{path.name}: {path.stat().st_size} bytes, {(~columns['last']).sum()} transitions, "
          f"{columns['terminated'].sum()} ends, returns {rewards.astype(int).tolist()}; {about}")


def minatar(only=None):
    for name, (_, at_random, by_rules, most) in GAMES.items():
        if only in (None, name):
            kept = defaultdict(list)
            for seed in range(at_random + by_rules):
                played(name, seed, seed >= at_random, most, kept)
            save(name, kept, f"MinAtar 1.0.15, numpy {np.__version__}")


def gymnax(only=None):
    import jax
    from gymnax.environments.minatar.breakout import MinBreakout

    env, kept, rng = MinBreakout(), defaultdict(list), np.random.default_rng(1)
    params, step_env = env.default_params, jax.jit(env.step_env)
    for episode in range(40):
        observation, state = env.reset_env(jax.random.PRNGKey(episode), params)
        ended = False
        while True:
            row = of_breakout(jax.tree_util.tree_map(np.asarray, state))
            follow = 0 if row["ball_x"] == row["pos"] else 1 if row["ball_x"] < row["pos"] else 2
            action = follow if rng.random() < (1.0 if episode == 39 else 0.97 if episode % 2 else 0.3) else int(rng.integers(3))
            row |= {"observation": np.packbits(np.asarray(observation) > 0), "episode": episode, "last": ended,
                    "action": 0 if ended else action, "steps": int(state.time), "reward": 0, "terminated": False}  # fmt: skip
            if not ended:
                observation, state, reward, done, _ = step_env(jax.random.PRNGKey(0), state, action, params)
                row |= {"reward": int(reward), "terminated": bool(done)}
            for column, value in row.items():
                kept[column].append(value)
            if ended:
                break
            ended = bool(row["terminated"]) or int(state.time) >= 1010  # step_env goes on beyond the limit of 1,000
    from importlib import metadata

    save("breakout_gymnax", kept, f"gymnax {metadata.version('gymnax')}, jax {metadata.version('jax')}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference", choices=["minatar", "gymnax"])
    parser.add_argument("game", nargs="?", help="only this one of MinAtar's")
    given = parser.parse_args()
    {"minatar": minatar, "gymnax": gymnax}[given.reference](given.game)
