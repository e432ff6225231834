"""Records flappy-bird-gymnasium's FlappyBird-v0, whole episodes, into tests/golden/flappy.npz: needs flappy-bird-gymnasium
(0.4.0 when it was made).

What an array holds is told in tests/golden/README.md.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from flappy_bird_gymnasium.envs.flappy_bird_env import FlappyBirdEnv

OUT = Path(__file__).parents[1] / "tests" / "golden" / "flappy.npz"
LONGEST = 600  # frames of an episode that are recorded


def state_of(game: FlappyBirdEnv) -> list[float]:
    """The bird's height, speed and rotation, each pipe's left side and gap, the score."""
    pipes = [number for pipe in game._upper_pipes for number in (pipe["x"], pipe["y"] + 320)]
    return [game._player_y, game._player_vel_y, game._player_rot, *pipes, game._score]


def action_of(game: FlappyBirdEnv, skill: float, flaps: float, rng: np.random.Generator) -> int:
    """A flap where the bird falls below the next gap's middle; without such skill one at random."""
    if rng.random() > skill:
        return int(rng.random() < flaps)
    pipe = min((pipe for pipe in game._upper_pipes if pipe["x"] + 52 > 57), key=lambda pipe: pipe["x"])
    return int(game._player_y + 24 > pipe["y"] + 320 + 85)


def main() -> None:
    game, rng, rows = FlappyBirdEnv(use_lidar=False), np.random.default_rng(0), []
    for seed in range(48):
        seen, _ = game.reset(seed=seed)
        skill, flaps = ((0.0, 0.5), (0.0, 0.015), (0.8, 0.08), (0.97, 0.08), (1.0, 0.0), (1.0, 0.0))[seed % 6]
        for frame in range(LONGEST):
            before = state_of(game)
            action = action_of(game, skill, flaps, rng)
            seen, reward, terminal, _, _ = game.step(action)
            rows.append((before, action, reward, terminal, state_of(game), seen, frame == 0))
            if terminal:
                break
    before, action, reward, terminal, after, seen, first = map(np.array, zip(*rows, strict=True))
    last = np.append(first[1:], True)  # elsewhere the state after is the one before the next
    often = np.arange(len(action)) % 8 == 0
    np.savez_compressed(OUT, before=before.astype(np.float32), action=action.astype(np.uint8), reward=reward.astype(np.float32),
                        terminal=terminal, first=first, last=after[last].astype(np.float32), seen=seen[often].astype(np.float32))  # fmt: skip
    print(f"{OUT.name}: {len(action)} rows, {first.sum()} episodes, {OUT.stat().st_size / 1024:.0f} kB, "
          f"{int(after[:, -1].max())} pipes, {terminal.sum()} crashes, {(after[:, 0] < 0).sum()} above")  # fmt: skip


if __name__ == "__main__":
    main()
