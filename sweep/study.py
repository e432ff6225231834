"""A study: from its TOML file and search space, every name and value checked, to a frozen Study."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep import scalars, space, tomlfiles
from sweep.scalars import parse_duration
from sweep.tomlfiles import StudyError, folder, names, one_line, shown
from trainer_native import config

if TYPE_CHECKING:
    from trainer_native import Solve
    from trainer_native.environments import Environment

__all__ = ["Budget", "Study", "StudyError", "check_solve", "folder", "load", "names", "parse_duration"]

SAMPLERS = ("capri", "tpe", "random", "cmaes", "gp")
POLICIES = ("sampled", "greedy")
#: Most episodes that a solve may ask for.
MOST_EPISODES = 100_000
#: The tables that hold hyperparameters; a space has these alone.
TABLES = ("net", "train", "environment")
_STUDY_KEYS = ("env", "space", "sampler", "solve", "budget", "start", *TABLES)
_SOLVE_KEYS = ("mean_return", "metric", "episodes", "policy")


@dataclass(frozen=True)
class Budget:
    """How long a study may take. `seeds`: most seeds a trial can earn while searching."""

    study_seconds: float = 900.0
    verify_seconds: float = 600.0
    run_seconds: float = 60.0
    seeds: int = 8
    max_env_steps: int | None = None  # of one run


@dataclass(frozen=True)
class Study:
    """One question: an environment, a search space, when it is solved, and a budget."""

    name: str
    env: str  # a name, or the absolute path of a header: what the trainer takes
    space: str | None
    sampler: str
    question: str  # the comment that begins the file, on one line
    solve: Solve
    budget: Budget
    dimensions: dict[str, space.Dimension] = field(hash=False)  # those the files name, in order
    environment: dict[str, config.Hyperparameter] = field(hash=False, repr=False)  # the environment's own
    source_hash: str  # of the environment
    trainer: str = "native"
    source: Path | None = None
    start: dict[str, Any] = field(default_factory=dict, hash=False)  # where trial 0 is not the defaults; no part of the definition

    def definition(self) -> dict[str, Any]:
        """What makes this study this study, as JSON holds it: not its name, budget, machine or sampler."""
        return {
            "env": Path(self.env).stem,
            "source_hash": self.source_hash,
            "dimensions": {name: self.dimensions[name].toml() for name in sorted(self.dimensions)},
            "solve": {
                "mean_return" if self.solve.metric is None else "metric": float(self.solve.target),
                "episodes": int(self.solve.episodes),
                "policy": self.solve.policy,
            },
            "trainer": self.trainer,
            "semantics": config.SEMANTICS,
        }

    @property
    def hash(self) -> str:
        """sha256 of the definition, 64 hexadecimal digits."""
        canonical = json.dumps(self.definition(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def trial0(self) -> dict[str, Any]:
        """params of trial 0: [start], else the trainer's defaults, or what the space holds nearest to them."""
        defaults = {name: h.default for name, h in {**config.HYPERPARAMETERS, **self.environment}.items()}
        return space.default_params(self.dimensions, {**defaults, "try_from": self.solve.target, **self.start})


def load(
    name_or_path: str | Path,
    *,
    budget: str | float | None = None,
    verify: str | float | None = None,
    run: str | float | None = None,
    seeds: int | None = None,
    env_steps: int | None = None,
    sampler: str | None = None,
) -> Study:
    """The study of that name, or in that file. What is given here wins over its [budget] and sampler.

    Durations are seconds or text such as "15m". Raises StudyError.
    """
    path = tomlfiles.find("studies", name_or_path)
    where = shown(path)
    if not path.stem.isprintable():
        raise StudyError(f"{where!r}: the name of a study has a character that cannot be printed; rename the file")
    content, question = tomlfiles.read(path)
    _check_keys(content, _STUDY_KEYS, where, "a study")
    environment, env = _environment(content, path)

    named = {}
    space_name = content.get("space")
    if space_name is not None:
        space_path = tomlfiles.find("spaces", scalars.word(space_name, f"{where}: 'space'"), where, path)
        space_content, _ = tomlfiles.read(space_path)
        _check_keys(space_content, TABLES, shown(space_path), "a space")
        named = _dimensions(space_content, environment, shown(space_path))
    named |= _dimensions(content, environment, where)
    dimensions = {name: dimension for name, (dimension, _) in named.items()}
    if not space.searched(dimensions):
        raise StudyError(
            f"{where}: nothing to search; give [net], [train] or [environment] a list or a range, or start from a space: "
            f"{', '.join(names('spaces'))}"
        )
    _check_combinations(dimensions, {name: place for name, (_, place) in named.items()}, where)

    start = _start(content, dimensions, environment, where)
    given = {"study": budget, "verify": verify, "run": run, "seeds": seeds, "env_steps": env_steps}
    chosen = (content.get("sampler", "tpe"), f"{where}: 'sampler'") if sampler is None else (sampler, "--sampler")
    return Study(
        name=path.stem,
        env=env,
        space=space_name,
        sampler=scalars.one_of(*chosen, SAMPLERS),
        question=question,
        solve=_solve(content, where, environment),
        budget=_budget(content, where, {key: value for key, value in given.items() if value is not None}),
        dimensions=dimensions,
        environment=environment.params,
        source_hash=environment.source_hash,
        source=path,
        start=start,
    )


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What differs between two definitions, one short text each."""
    texts = []
    old, new = _flat(before), _flat(after)
    for key in dict.fromkeys([*new, *old]):
        if old.get(key) != new.get(key):
            told = (space.brief(side[key]) if key in side else "absent" for side in (old, new))
            texts.append("environment source" if key == "source_hash" else f"{key} {' -> '.join(told)}")
    return texts


def _flat(definition: dict[str, Any]) -> dict[str, Any]:
    """Dimensions by their names, the rest by dotted keys; whole floats as ints."""
    tables = {**definition.get("dimensions", {}), **{f"solve.{k}": v for k, v in definition.get("solve", {}).items()}}
    flat = tables | {key: value for key, value in definition.items() if key not in ("dimensions", "solve")}
    return {key: int(v) if isinstance(v, float) and v.is_integer() else v for key, v in flat.items()}


def _environment(content: dict, path: Path) -> tuple[Environment, str]:
    """The environment, and how a Study names it."""
    from trainer_native import environments

    where, known = shown(path), environments.names()
    if "env" not in content:
        raise StudyError(f"{where}: 'env' is missing; legal are {tomlfiles.listing(known)}, or the path of a header")
    env = scalars.word(content["env"], f"{where}: 'env'")
    is_path = env.endswith(".h") or "/" in env or os.sep in env
    if is_path:
        header = Path(os.path.expanduser(env))
        header = header if header.exists() else path.parent / header
        if not header.is_file():
            raise StudyError(f"{where}: 'env' is {env!r}; no such file")
        env = str(header.absolute())
    try:
        return environments.find(env), env
    except (environments.HeaderError, OSError) as error:
        if is_path or env in known:
            told = StudyError(f"{where}: 'env' is {env!r}: {one_line(error)}")
            for note in getattr(error, "__notes__", ()):  # what the compiler said
                told.add_note(note)
            raise told from None
    listed = tomlfiles.listing(known) + (" (`sweep envs`)" if len(known) > 8 else "")
    hint = f"{config.closest(env, known)} Legal are {listed}, or the path of a header"
    raise StudyError(f"{where}: {space.brief(env)} is not an environment.{hint}")


def _check_keys(content: dict, legal: tuple[str, ...], where: str, of_what: str) -> None:
    """Refuses what stands at the top of a file and is not one of `legal`."""
    for key, value in content.items():
        if key in legal:
            if key in ("solve", "budget", "start", *TABLES) and not isinstance(value, dict):
                raise StudyError(f"{where}: {key!r} is {space.brief(value)}; legal is a table, [{key}]")
        elif key in _HOMES:
            raise StudyError(f"{where}: {key!r} belongs to {_HOMES[key]}")
        else:
            written = f"[{key}]" if isinstance(value, dict) else key
            spelt = ", ".join(f"[{name}]" if name in ("solve", "budget", "start", *TABLES) else name for name in legal)
            raise StudyError(f"{where}: {written!r} is not a key of {of_what}.{config.closest(key, legal)} Legal are {spelt}")


def _dimensions(content: dict, environment: Environment, where: str) -> dict[str, tuple[space.Dimension, str]]:
    """name -> (dimension, file and table) of the hyperparameters in a file's tables."""
    known = {**config.HYPERPARAMETERS, **environment.params}
    found = {}
    for table in TABLES:
        for name, value in content.get(table, {}).items():
            place = f"{where} [{table}]"
            if name not in known and name in _HOMES:
                raise StudyError(f"{place}: {name!r} belongs to {_HOMES[name]}")
            if name not in known:
                raise StudyError(f"{place}: {_not_a_hyperparameter(name, table, known, environment.name)}")
            if known[name].table != table:
                raise StudyError(f"{place}: {name!r} belongs to [{known[name].table}]")
            try:
                dimension = space.fit(space.parse(name, value, place), known[name], place)
            except space.SpaceError as error:
                raise StudyError(str(error)) from None
            if unfit := config.unfit({name: value}, not environment.choices, environment.image):
                raise StudyError(f"{place}: {unfit[1]}")
            found[name] = (dimension, place)
    return found


def _not_a_hyperparameter(name: str, table: str, known: dict[str, config.Hyperparameter], env: str) -> str:
    of_env = f" of {env}" if table == "environment" else ""
    here = [other for other, h in known.items() if h.table == table]
    hint = config.closest(name, here)
    if not hint and (hint := config.closest(name, known)):
        meant = hint.split("'")[1]
        hint = f" Did you mean {meant!r} of [{known[meant].table}]?"
    if not hint:
        hint = f" Legal are {', '.join(here)}" if here else " It has none"
    return f"{name!r} is not a hyperparameter{of_env}.{hint}"


def _check_combinations(dimensions: dict[str, space.Dimension], places: dict[str, str], where: str) -> None:
    """Refuses a space in which under a tenth of the combinations is legal."""
    share, reasons = space.legal_share(dimensions)
    if share >= space.LEAST_LEGAL:
        return
    key, why = reasons[0]
    if share == 0 and len(reasons) == 1:
        raise StudyError(f"{places.get(key, where)}: {why}")
    raise StudyError(
        f"{places.get(key, where)}: only {share:.1%} of the combinations of this space are legal, and at least "
        f"{space.LEAST_LEGAL:.0%} must be; for example {why}"
    )


def _start(content: dict, dimensions: dict[str, space.Dimension], environment: Environment, where: str) -> dict[str, Any]:
    """[start], each value legal and inside its dimension, all of them together too."""
    place, table = f"{where} [start]", content.get("start", {})
    known = {**config.HYPERPARAMETERS, **environment.params}
    start = {}
    for name, value in table.items():
        if name not in known and name in _HOMES:
            raise StudyError(f"{place}: {name!r} belongs to {_HOMES[name]}")
        if name not in known:
            raise StudyError(f"{place}: {name!r} is not a hyperparameter.{config.closest(name, known)}")
        try:
            start[name] = known[name].check(value)
        except config.ConfigError as error:
            raise StudyError(f"{place}: {error}") from None
        if name not in dimensions:
            home = known[name].table
            raise StudyError(f"{place}: {name!r} is not in the space; fix it in [{home}], {name} = {space.text(value)}, or search it there")
        dimension, value = dimensions[name], start[name]
        inside = dimension.low <= value <= dimension.high if isinstance(dimension, space.Range) else dimension.contains(value)
        if not inside:
            raise StudyError(f"{place}: {name!r} is {space.brief(value)}; the space has {space.text(dimension.toml())}")
    defaults = {name: h.default for name, h in known.items()}
    nearest = {name: d.nearest({**defaults, **start}.get(name)) for name, d in dimensions.items()}
    if start and (illegal := space.legal(nearest)):
        raise StudyError(f"{place}: {illegal[1]}")
    return start


def _solve(content: dict, where: str, environment: Environment) -> Solve:
    if "solve" not in content:
        raise StudyError(f"{where}: [solve] is missing; legal is a table with mean_return, and maybe episodes and policy")
    return check_solve(content["solve"], f"{where} [solve]", environment)


def check_solve(table: dict[str, Any], place: str, environment: Environment) -> Solve:
    """The Solve of a table [solve]. `place` (file and table) begins the line of a StudyError."""
    import trainer_native

    _check_table(table, _SOLVE_KEYS, place)
    if "mean_return" in table and "metric" in table:
        raise StudyError(f"{place}: 'mean_return' and 'metric' are both given; legal is one of them")
    if "metric" in table:
        metric = table["metric"]
        if not environment.has_metric:
            raise StudyError(f"{place}: 'metric' is given, and {environment.name} reports none; legal is mean_return, or a header "
                             "with `float metric(const State&, const Params&)`")  # fmt: skip
        if not space.is_finite(metric) or not 0 < metric <= 1:
            raise StudyError(f"{place}: 'metric' is {space.brief(metric)}; legal is a number above 0 and up to 1")
        reached = {"metric": float(metric)}
    elif "mean_return" not in table:
        also = ", or metric, of 0 to 1" if environment.has_metric else ""
        raise StudyError(f"{place}: 'mean_return' is missing; legal is a number, the mean return that counts as solved{also}")
    elif not space.is_finite(table["mean_return"]):
        raise StudyError(f"{place}: 'mean_return' is {space.brief(table['mean_return'])}; legal is a finite number")
    else:
        reached = {"mean_return": float(table["mean_return"])}
    return trainer_native.Solve(
        **reached,
        episodes=scalars.count(table.get("episodes", 100), f"{place}: 'episodes'", MOST_EPISODES),
        policy=scalars.one_of(table.get("policy", "sampled"), f"{place}: 'policy'", POLICIES),
    )


def _budget(content: dict, where: str, given: dict[str, Any]) -> Budget:
    """[budget], and over it what the command line gave."""
    table = content.get("budget", {})
    _check_table(table, tuple(_BUDGET), f"{where} [budget]")
    fields = {}
    for key, (name, check) in _BUDGET.items():
        if key in table:
            fields[name] = check(table[key], f"{where} [budget]: {key!r}")
        if key in given:
            fields[name] = check(given[key], "--budget" if key == "study" else f"--{key.replace('_', '-')}")
    return Budget(**fields)


def _check_table(table: dict, legal: tuple[str, ...], place: str) -> None:
    for key in table:
        if key not in legal and key in _HOMES:
            raise StudyError(f"{place}: {key!r} belongs to {_HOMES[key]}")
        if key not in legal:
            raise StudyError(f"{place}: {key!r} is not legal here.{config.closest(key, legal)} Legal are {', '.join(legal)}")


#: Key of [budget] -> field of Budget, and what reads it.
_BUDGET = {
    "study": ("study_seconds", scalars.above_zero),
    "verify": ("verify_seconds", scalars.duration),
    "run": ("run_seconds", scalars.above_zero),
    "seeds": ("seeds", scalars.count),
    "env_steps": ("max_env_steps", scalars.count),
}

#: Where a key that stands in the wrong place belongs.
_HOMES = {
    **{key: "the top of a study, before its first table" for key in ("env", "space", "sampler")},
    **dict.fromkeys(_SOLVE_KEYS, "[solve]"),
    **dict.fromkeys(_BUDGET, "[budget]"),
    **{name: f"[{h.table}]" for name, h in config.HYPERPARAMETERS.items()},
}
