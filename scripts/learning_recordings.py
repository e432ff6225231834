"""Recordings of learning: the length of every training episode of every copy of CartPole, over the seeds of one trainer.

An episode of CartPole earns 1 per env step, so its length is its return, and where its copy's earlier episodes ended
says after how many env steps it did. Lengths alone therefore hold whole learning curves, whatever they are binned by."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent.parent / "tests" / "golden"


@dataclass
class Recording:
    """`lengths[seed][copy]`: env steps of that copy's training episodes, in order. `about`: where it comes from."""

    lengths: list[list[np.ndarray]]
    about: dict

    def episodes(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """(env steps of all copies when it ended, return) of each episode of one seed, in the order of their ends."""
        copies = self.lengths[seed]
        ends = np.concatenate([np.cumsum(lengths.astype(np.int64)) for lengths in copies]) * len(copies)
        returns = np.concatenate(copies).astype(np.float64)
        order = np.argsort(ends, kind="stable")   # those of one env step: by copy, as a trainer meets them
        return ends[order], returns[order]


def save(recording: Recording, path: Path) -> None:
    """Writes a recording into a compressed npz of some 50 KB."""
    counts = np.array([[len(copy) for copy in copies] for copies in recording.lengths], np.int32)
    lengths = np.concatenate([copy for copies in recording.lengths for copy in copies]).astype(np.uint16)
    np.savez_compressed(path, counts=counts, lengths=lengths, about=np.array(json.dumps(recording.about)))


def load(path: Path) -> Recording:
    """The recording in a file that `save` wrote."""
    with np.load(path) as file:
        counts, lengths, about = file["counts"], file["lengths"], json.loads(str(file["about"]))
    pieces = np.split(lengths, np.cumsum(counts.ravel())[:-1])
    copies = counts.shape[1]
    return Recording([pieces[i : i + copies] for i in range(0, len(pieces), copies)], about)


def lengths_of(ended: np.ndarray) -> list[np.ndarray]:
    """Episode lengths of each copy from `ended` [env steps per copy, copies]: true where an episode ended."""
    return [np.diff(np.flatnonzero(column), prepend=-1) for column in np.asarray(ended, bool).T]
