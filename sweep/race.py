"""Decisions of a study, pure: the cap of a run, whether a trial goes on, what a trial is worth, who is verified next.

`Race` holds a summary of the runs so far: add each run, then ask. Nothing here reads a clock, draws at random or does input or output.
All seconds of the search are CPU seconds since the run's first env step; those of verification are wall seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class RunView:
    """What the race needs to know of one run. Per (trial, seed) the longest run counts: a rerun with the same seed is the same run."""

    seed: int
    status: str  # solved, censored, diverged, crashed
    seconds: float  # CPU seconds in the search, wall seconds in verification
    cap_seconds: float | None = None  # the cap it had at its end
    audit: bool = False
    reason: str = ""  # Run.reason; "cancelled" runs are ignored by the race
    best_return: float | None = None
    curve: np.ndarray | None = field(default=None, compare=False, repr=False)  # [points, 4] as trainer_native.Run.curve


@dataclass
class TrialView:
    """A trial as the race sees it."""

    number: int
    parameters: int
    audit: bool = False  # goes on uncapped where its first run is censored at its cap
    runs: dict[int, RunView] = field(default_factory=dict)  # by seed, the longest of each


@dataclass(frozen=True)
class Promotion:
    """Run this seed of this trial again, from the start, with a longer cap: exact, so it replaces the shorter run."""

    trial: int
    seed: int
    cap_seconds: float


@dataclass
class Finalist:
    """A trial in verification: what the search claims of it and its fresh runs so far."""

    number: int
    parameters: int
    claimed_seconds: float  # shrunk restart ERT of the search
    claimed_median: float  # Kaplan–Meier median of the search, seconds (the restart ERT where the median is not reached)
    search_runs: int
    search_solved: int
    runs: list[RunView] = field(default_factory=list)  # fresh seeds only


@dataclass(frozen=True)
class VerificationStep:
    """The next verification run: which trial, why, and its cap in wall seconds."""

    trial: int
    reason: str
    cap_seconds: float


def is_audit(trial_number: int, study_seed: int) -> bool:
    """Whether the trial is one of the one in ten that audit the caps; a fixed function of both numbers, never trial 0."""
    raise NotImplementedError


def verification_cap(claimed_median: float) -> float:
    """Wall seconds after which a verification run is censored: three times the claimed median, not below 20 s."""
    raise NotImplementedError


def verification_next(finalists: list[Finalist], seconds_left: float, seeds: int = 32) -> VerificationStep | None:
    """The verification run to do next, or None where no run could change what is recommended or the time does not reach.

    `finalists` in the order of Race.finalists, dropped ones included: this function drops anew from their runs each time. Crashed
    runs in `Finalist.runs` are ignored. `seconds_left` wall seconds."""
    raise NotImplementedError


class Race:
    """The state of the search: add trials and runs in the order they come (or come out of the store), then ask.

    run_seconds: budget.run; max_seeds: budget.seeds; study_seed: the study's --seed; target_return: solve.mean_return."""

    def __init__(self, run_seconds: float, max_seeds: int = 8, study_seed: int = 0, target_return: float = 0.0):
        raise NotImplementedError

    def add_trial(self, number: int, parameters: int, audit: bool | None = None) -> None:
        """A new trial, before its first run starts. audit None: decided here (is_audit, and audits within a tenth of all seconds)."""
        raise NotImplementedError

    def add(self, number: int, run: RunView) -> None:
        """A run of a trial that was added has ended. Idempotent per run: a shorter or equal run of a seed changes nothing."""
        raise NotImplementedError

    def audit(self, number: int) -> bool:
        """Whether runs of this trial are stored with audit = True: they go on beyond the cap."""
        raise NotImplementedError

    def cap(self, number: int) -> float:
        """CPU seconds after which a run of this trial, next or in flight, is stopped now. At most run_seconds."""
        raise NotImplementedError

    def ordinary_cap(self, parameters: int) -> float:
        """The cap of a run of a network this large that is neither an audit nor trial 0."""
        raise NotImplementedError

    def seeds_wanted(self, number: int) -> int:
        """How many seeds this trial should have had by now, crashed ones included. Not more than it had: its race has ended.

        A trial that ended can be opened again by promote()."""
        raise NotImplementedError

    def ended(self, number: int) -> bool:
        """Whether the trial has had all the seeds it should, so the sampler can be told its value (runs in flight aside)."""
        raise NotImplementedError

    def promote(self) -> list[Promotion]:
        """Runs to do again for longer, best first; each is handed out once, so call it when a worker could take one. Usually empty."""
        raise NotImplementedError

    def value(self, number: int) -> tuple[int, float] | None:
        """(parameters, log seconds) for the sampler, both minimised, as of now; None where all runs crashed: nothing to tell.

        Solved: log of the shrunk restart ERT. Without a solve: finite, above every solved trial's, ordered by best return at equal time."""
        raise NotImplementedError

    def finalists(self, k: int) -> list[int]:
        """At most k trial numbers in the order in which to verify them; trials without a solve are never among them."""
        raise NotImplementedError

    def finalist(self, number: int) -> Finalist:
        """The trial as verification_next wants it, without fresh runs yet."""
        raise NotImplementedError

    def audits(self) -> tuple[int, int]:
        """(trials audited, those of them that the cap would have killed and that are within 1.5 × of the front)."""
        raise NotImplementedError
