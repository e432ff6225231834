"""SMAC3 with its adaptive capping, in a replay (Lindauer et al. 2022, jmlr.org/papers/v23/21-0888.html; capping is back in 2.4).

Asked as its documentation says for run time (automl.github.io/SMAC3, Adaptive Capping): the facade for algorithm configuration with its
defaults, the objective seconds, SEEDS instances with features that only tell them apart, here the seeds. A challenger may use up what the
incumbent did on the same seeds; a run that is stopped is told as the seconds it had. It recommends its incumbent; its front is that of the
mean seconds of the settings that solved.
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sweep import replay, space
from sweep.replay import Found, SimulatedPool, World
from sweep.tables import Table

#: Seeds that a setting can earn, as in `sweep run`.
SEEDS = 8
#: A run that is stopped at its cap has had a little more: a challenger that used up what the incumbent did is no better by a rounding error.
OVER = 1e-6


@dataclass
class Trial:
    """A run that SMAC asked for."""

    info: Any
    row: int
    seconds: float

    def task(self, key: int, table: Table) -> dict:
        return {"key": key, "params": table.params[self.row], "seed": int(self.info.instance), "cap_seconds": self.seconds}


class Smac:
    """The search, as a loop that opponents.py drives."""

    def __init__(self, table: Table, seed: int):
        import smac

        self.table, self.size_of = table, replay.sizes(table)
        self.searched = space.searched(table.dimensions)
        self.rows: dict[Any, int] = {}  # configuration -> row of the table
        self.told: dict[int, list[tuple[float, bool]]] = {}  # by row: (seconds, solved) of each run
        self.world: World | None = None
        self._over = False
        logging.getLogger("smac").setLevel(logging.ERROR)
        facade, instances = smac.AlgorithmConfigurationFacade, [str(i) for i in range(SEEDS)]
        with tempfile.TemporaryDirectory() as folder:  # where it writes down how it was made, and nothing later
            scenario = smac.Scenario(
                self._space(), deterministic=True, instances=instances, instance_features={i: [float(i)] for i in instances},
                adaptive_capping=True, runtime_cutoff=SEEDS * table.run_seconds, seed=seed, output_directory=folder)  # fmt: skip
            self.facade = facade(scenario, config_selector=_selector(scenario, self._moved), logging_level=False, overwrite=True)

    def ask(self, world: World, pool: SimulatedPool) -> Trial | None:
        self.world = world
        if self._over:
            return None
        begun = time.process_time()  # not of this thread alone: its forest is fitted by others
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                info = self.facade.ask()
        except StopIteration:  # nothing is left to try
            self._over = True
            return None
        finally:
            pool.charge(time.process_time() - begun)
        cap = min(self.table.run_seconds, max(0.0, float(info.additional_info["cutoff"])))
        return Trial(info, self.rows[info.config], cap)

    def goes_on(self, trial: Trial, run: Any, pool: SimulatedPool) -> bool:
        """Never: SMAC asks for each run by itself."""
        from smac.runhistory import StatusType, TrialValue

        begun, solved = time.process_time(), run.status == "solved"
        # What crashed or is no number has failed as one that used all of its time.
        seconds = run.cpu_seconds if solved else trial.seconds * (1 + OVER)
        self.told.setdefault(trial.row, []).append((seconds, solved))
        self.facade.tell(trial.info, TrialValue(cost=seconds, time=seconds, status=StatusType.SUCCESS), save=False)
        pool.charge(time.process_time() - begun)
        return False

    def answer(self, table: Table) -> Found:
        values = {row: sum(s for s, _ in runs) / len(runs) for row, runs in self.told.items() if any(solved for _, solved in runs)}
        incumbent = next((row for row in map(self.rows.get, self.facade.intensifier.get_incumbents()) if row in values), None)
        return Found(incumbent, replay.fastest(table, values).front)

    # -- its space --------------------------------------------------------------------------------------

    def _space(self) -> Any:
        """As Optuna's distributions, with the defaults of trial 0."""
        import ConfigSpace

        found = ConfigSpace.ConfigurationSpace()
        for name, dimension in self.searched.items():
            kind, default = dimension.distribution(), dimension.to_optuna(self.table.params[0][name])
            if hasattr(kind, "choices"):
                found.add(ConfigSpace.Categorical(name, kind.choices, default=default))
                continue
            number = ConfigSpace.Integer if isinstance(kind.low, int) else ConfigSpace.Float
            found.add(number(name, (kind.low, kind.high), default=default, log=kind.log))
        return found

    def _moved(self, config: Any) -> Any:
        """The configuration of the table in place of one that SMAC would try; None where no more may be had."""
        import ConfigSpace

        params = {name: d.from_optuna(config[name]) if d.searched else d.value for name, d in self.table.dimensions.items()}
        row = self.world.nearest(params, self.size_of(params))
        if row is None:
            return None
        values = {name: d.to_optuna(self.table.params[row][name]) for name, d in self.searched.items()}
        moved = ConfigSpace.Configuration(config.config_space, values=values)
        moved.origin = config.origin
        self.rows[moved] = row
        return moved


def _selector(scenario: Any, moved: Callable[[Any], Any]) -> Any:
    """SMAC's own selector of configurations, which it gets as `moved` to the table."""
    from smac.main.config_selector import ConfigSelector

    class Moved(ConfigSelector):
        def __iter__(self) -> Iterator[Any]:
            for config in super().__iter__():
                if (there := moved(config)) is None:
                    return
                yield there

    return Moved(scenario)
