"""A search space: parsed from TOML, checked against the trainer, sampled, mutated, mapped to the unit cube."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sweep.dimensions import Choice, Dimension, Fixed, Range, is_finite, is_number, is_power_of_two, same
from trainer_native import config

#: A range is a table of one of these keys: { log = [low, high] }.
KINDS = ("uniform", "log", "near_one", "int", "pow2")
#: A space of which a smaller share of the combinations is legal is an error.
LEAST_LEGAL = 0.1
#: Most values that a choice may have.
MOST_CHOICES = 1000
_DEFAULTS = {name: h.default for name, h in config.HYPERPARAMETERS.items()}


class SpaceError(ValueError):
    """A choice or a range that cannot be; the message is one line: where, what, what is legal."""


def parse(key: str, value: Any, where: str) -> Dimension:
    """The dimension that a value of a TOML file means: a value, a list of choices, or a table of one range.

    `where` (file and table) begins the line of a SpaceError. What the trainer takes is for `fit` to say.
    """
    if isinstance(value, dict):
        return _parse_range(key, value, where)
    if not isinstance(value, list):
        _check_value(key, value, value, where)
        return Fixed(value)
    if not value:
        raise SpaceError(f"{where}: {key!r} is []; a choice needs at least one value")
    if len(value) > MOST_CHOICES:
        raise SpaceError(f"{where}: {key!r} has {len(value):,} choices; legal are at most {MOST_CHOICES:,}, or a range")
    for index, item in enumerate(value):
        _check_value(key, item, value, where)
        if any(same(item, earlier) for earlier in value[:index]):
            raise SpaceError(f"{where}: {key!r} lists {brief(item)} twice: {brief(value)}; legal is each choice once")
    if len(value) == 1:
        return Fixed(value[0])
    return Choice(tuple(sorted(value) if all(map(is_number, value)) else value))


def fit(dimension: Dimension, hyperparameter: config.Hyperparameter, where: str) -> Dimension:
    """`dimension` with its values in the hyperparameter's type; SpaceError where the trainer would refuse one."""
    name, taken = hyperparameter.name, hyperparameter.legal()
    try:
        if isinstance(dimension, Fixed):
            return Fixed(hyperparameter.check(dimension.value))
        if isinstance(dimension, Choice):
            return Choice(tuple(map(hyperparameter.check, dimension.values)))
        if hyperparameter.kind not in (int, float):
            raise SpaceError(f"{where}: {name!r} cannot be a range; legal is {taken}, or a list of these")
        kinds = ("uniform", "log", "near_one")
        if hyperparameter.kind is int:
            kinds = ("int", "pow2") if hyperparameter.multiple > 1 else ("int", "log", "pow2")
        if dimension.kind not in kinds:
            raise SpaceError(
                f"{where}: {name!r} is {text(dimension.toml())}; it is {taken}, and its range is one of {', '.join(kinds)}"
            )
        low, high = hyperparameter.check(dimension.low), hyperparameter.check(dimension.high)
    except config.ConfigError as error:
        inside = f", in {text(dimension.toml())}" if dimension.searched else ""
        raise SpaceError(f"{where}: {error}{inside}") from None
    return replace(dimension, low=low, high=high, step=hyperparameter.multiple if dimension.kind == "int" else 1)


def legal(params: Mapping[str, Any]) -> tuple[str, str] | None:
    """None where the values go together in the trainer, else (key, why). Absent ones have their defaults."""
    return config.combination({**_DEFAULTS, **params})


def searched(dimensions: Mapping[str, Dimension]) -> dict[str, Dimension]:
    """Those that are not fixed: the axes of the unit cube, in order."""
    return {name: dimension for name, dimension in dimensions.items() if dimension.searched}


def to_unit(dimensions: Mapping[str, Dimension], params: Mapping[str, Any]) -> np.ndarray:
    """float64[searched dimensions]: where `params` stand in the unit cube."""
    return np.array([d.to_unit(params[name]) for name, d in searched(dimensions).items()], dtype=np.float64)


def from_unit(dimensions: Mapping[str, Dimension], unit: np.ndarray) -> dict[str, Any]:
    """params at a point of the unit cube, fixed ones included; they may be an illegal combination (see `legal`)."""
    units = iter(unit)
    return {name: d.from_unit(next(units)) if d.searched else d.value for name, d in dimensions.items()}


def sample(dimensions: Mapping[str, Dimension], rng: np.random.Generator, tries: int = 10_000) -> dict[str, Any]:
    """params drawn evenly from the legal combinations: illegal ones are drawn again."""
    axes = len(searched(dimensions))
    for _ in range(tries):
        params = from_unit(dimensions, rng.random(axes))
        if (illegal := legal(params)) is None:
            return params
    raise SpaceError(f"no legal combination in {tries} draws: {illegal[1]}")


def mutate(
    dimensions: Mapping[str, Dimension], params: Mapping[str, Any], rng: np.random.Generator, scale: float
) -> dict[str, Any]:
    """A legal neighbour of `params`, other than they: each axis moved by about `scale` of the unit cube.

    A choice or whole number starts anywhere in its cell, so that small scales move it too, in proportion. Steps grow
    while draws are illegal or change nothing; where nothing else is legal you get `params` back.
    """
    axes = list(searched(dimensions).values())
    centre = to_unit(dimensions, params)
    widths = np.array([1 / axis.count() if axis.count() else 0.0 for axis in axes])
    for tried in range(200):
        unit = centre + widths * (rng.random(len(axes)) - 0.5) + scale * 1.05**tried * rng.standard_normal(len(axes))
        unit = 1 - np.abs(1 - np.mod(unit, 2))  # reflected at the walls
        moved = from_unit(dimensions, unit)
        if moved != params and legal(moved) is None:
            return moved
    return dict(params)


def default_params(dimensions: Mapping[str, Dimension], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """params of trial 0: the defaults, or the nearest value that the space holds; made legal where they are not."""
    params = {name: d.nearest(defaults.get(name)) for name, d in dimensions.items()}
    if legal(params) is None:
        return params
    moved = mutate(dimensions, params, np.random.default_rng(0), 0.05)
    return moved if legal(moved) is None else sample(dimensions, np.random.default_rng(0))


def legal_share(dimensions: Mapping[str, Dimension], draws: int = 1000) -> tuple[float, list[tuple[str, str]]]:
    """(share of legal combinations, each different (key, why) of the illegal ones) among `draws` with a fixed seed."""
    rng, axes = np.random.default_rng(0), len(searched(dimensions))
    found = [legal(from_unit(dimensions, rng.random(axes))) for _ in range(draws)]
    return found.count(None) / draws, list(dict.fromkeys(reason for reason in found if reason))


def text(value: Any) -> str:
    """`value` as TOML writes it, for an error message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(text, value)) + "]"
    if isinstance(value, dict):
        pairs = (f"{key if key.isidentifier() else repr(key)} = {text(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    return repr(value) if isinstance(value, (int, float, str)) else str(value)


def brief(value: Any) -> str:
    """`text` of it in about 40 characters."""
    try:
        written = text(value)
    except (ValueError, RecursionError):  # more digits than Python writes
        return "a number of thousands of digits"
    return written if len(written) <= 44 else f"{written[:36]}... ({len(written):,} characters)"


def _parse_range(key: str, value: dict, where: str) -> Range:
    written = f"{where}: {key!r} is {brief(value)}"
    kinds = "egal is one range of: " + ", ".join(KINDS)
    for kind in value:
        if kind not in KINDS:
            raise SpaceError(f"{written}; {kind!r} is not a range.{config.closest(kind, KINDS)} L{kinds}")
    if len(value) != 1:
        raise SpaceError(f"{written}; l{kinds}")
    [(kind, ends)] = value.items()
    if not isinstance(ends, list) or len(ends) != 2 or not all(map(is_finite, ends)):
        raise SpaceError(f"{written}; legal is {{ {kind} = [low, high] }} with two finite numbers")
    if kind in ("int", "pow2") and any(end != int(end) for end in ends):
        raise SpaceError(f"{written}; legal are two whole numbers")
    low, high = map(int if kind in ("int", "pow2") else float, ends)
    if low >= high:
        raise SpaceError(f"{written}; low must be below high")
    if kind == "log" and low <= 0:
        raise SpaceError(f"{written}; the low end of log must be above 0")
    if kind == "near_one" and not 0 < low < high < 1:
        raise SpaceError(f"{written}; the ends of near_one must be between 0 and 1, both excluded")
    if kind == "pow2" and not (is_power_of_two(low) and is_power_of_two(high)):
        raise SpaceError(f"{written}; the ends of pow2 must be powers of two")
    return Range(kind, low, high)


def _check_value(key: str, value: Any, whole: Any, where: str) -> None:
    if not isinstance(value, (bool, int, float, str)):
        raise SpaceError(f"{where}: {key!r} is {brief(whole)}; legal is a value, a list of values or a range")
    if is_number(value) and not is_finite(value):
        raise SpaceError(f"{where}: {key!r} is {brief(whole)}; legal are finite numbers")
