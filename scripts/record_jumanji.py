"""Records Jumanji's Game2048-v1, whole episodes and single moves of made-up boards, into tests/golden/g2048.npz: needs
jumanji (1.1.2 when it was made).

What an array holds is told in tests/golden/README.md.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import numpy as np
from jumanji.environments.logic.game_2048.env import Game2048

OUT = Path(__file__).parents[1] / "tests" / "golden" / "g2048.npz"


def action_of(board: np.ndarray, legal: np.ndarray, skill: float, rng: np.random.Generator) -> int:
    """At random, or the legal one that a player who heaps tiles in a corner takes: left, down, up, right."""
    if rng.random() > skill:
        return int(rng.integers(4))
    return next(a for a in (3, 2, 0, 1) if legal[a])


def main() -> None:
    game, rng, rows = Game2048(), np.random.default_rng(0), []
    reset, step = jax.jit(game.reset), jax.jit(game.step)
    masks = jax.jit(game._get_action_mask)
    for seed in range(40):
        state, seen = reset(jax.random.PRNGKey(seed))
        skill, ended, first = (0.0, 0.8, 0.95, 1.0)[seed % 4], False, True
        while not ended:
            board, legal = np.array(state.board), np.array(state.action_mask)
            action = action_of(board, legal, skill, rng)
            state, seen = step(state, action)
            ended = bool(seen.last())
            rows.append((board.ravel(), legal, action, float(seen.reward), ended, np.array(state.board).ravel(), first))
            first = False
    for _ in range(1500):  # boards that such players do not reach: large tiles, few of them different, few empty
        board = rng.integers(0, 17, (4, 4))
        board = np.where(
            rng.random((4, 4)) < rng.random() / 2, 0, np.where(rng.random((4, 4)) < 0.6, board, board[0, 0])
        )
        if rng.random() < 0.5:
            board = np.where(
                rng.random((4, 4)) < rng.random(), board, np.roll(board, rng.integers(1, 3), rng.integers(2))
            )
        if not (legal := np.array(masks(board))).any():
            continue
        action = int(rng.choice(np.flatnonzero(legal)))
        state, seen = step(
            dataclasses.replace(state, board=jax.numpy.asarray(board), action_mask=jax.numpy.asarray(legal)), action
        )
        rows.append(
            (board.ravel(), legal, action, float(seen.reward), bool(seen.last()), np.array(state.board).ravel(), True)
        )
    tiles, legal, action, reward, terminal, after, first = map(np.array, zip(*rows, strict=True))
    np.savez_compressed(OUT, tiles=tiles.astype(np.uint8), legal=legal.astype(np.uint8), action=action.astype(np.uint8),
                        reward=reward.astype(np.float32), terminal=terminal, first=first, after=after.astype(np.uint8))  # fmt: skip
    print(
        f"{OUT.name}: {len(action)} rows, {first.sum()} episodes, {OUT.stat().st_size / 1024:.0f} kB, tiles to 2^{tiles.max()}"
    )


if __name__ == "__main__":
    main()
