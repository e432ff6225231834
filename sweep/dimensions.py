"""One axis of a search space: a fixed value, a choice or a range; to the unit cube, to Optuna and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True)
class Fixed:
    """One value."""

    value: Any
    searched = False

    def contains(self, value: Any) -> bool:
        """Whether `value` can come out of this dimension."""
        return same(value, self.value)

    def nearest(self, value: Any) -> Any:
        """The legal value closest to `value`, of whatever type that is."""
        return self.value

    def to_unit(self, value: Any) -> float:
        """Where `value` stands between 0 and 1."""
        return 0.5

    def from_unit(self, unit: float) -> Any:
        """The value at `unit`, which is clipped to [0, 1]."""
        return self.value

    def distribution(self) -> BaseDistribution:
        """As an Optuna distribution: of what `from_optuna` takes, which is not always the value itself."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution((self.value,))

    def to_optuna(self, value: Any) -> Any:
        """What Optuna is told for `value`."""
        return self.value

    def from_optuna(self, suggestion: Any) -> Any:
        """The value that Optuna's `suggestion` stands for."""
        return self.value

    def toml(self) -> Any:
        """As it stands in a TOML file; `space.parse` reads it back."""
        return self.value

    def count(self) -> int:
        """How many values there are, each an equal cell of the unit interval; 0 where it is continuous."""
        return 1


@dataclass(frozen=True)
class Choice:
    """One of some values, equally likely; numbers are in ascending order and neighbours in the unit cube."""

    values: tuple
    searched = True

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers: samplers then search their index as a whole number."""
        return all(is_number(value) for value in self.values)

    def contains(self, value: Any) -> bool:
        return any(same(value, mine) for mine in self.values)

    def nearest(self, value: Any) -> Any:
        if self.ordered and is_number(value):
            return min(self.values, key=lambda mine: abs(mine - value))
        return value if self.contains(value) else self.values[0]

    def to_unit(self, value: Any) -> float:
        return (self._index(value) + 0.5) / len(self.values)

    def from_unit(self, unit: float) -> Any:
        return self.values[_cell(unit, len(self.values))]

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution, IntDistribution

        return IntDistribution(0, len(self.values) - 1) if self.ordered else CategoricalDistribution(self.values)

    def to_optuna(self, value: Any) -> Any:
        return self._index(value) if self.ordered else value

    def from_optuna(self, suggestion: Any) -> Any:
        return self.values[suggestion] if self.ordered else suggestion

    def toml(self) -> list:
        return list(self.values)

    def count(self) -> int:
        return len(self.values)

    def _index(self, value: Any) -> int:
        return next(i for i, mine in enumerate(self.values) if same(value, mine))


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included: whole numbers where the ends are ints.

    Equally likely are equal stretches of: x (`uniform`), log x (`log`), log (1 - x) (`near_one`), the whole numbers
    low, low + step, ... (`int`), the powers of two (`pow2`).
    """

    kind: str
    low: float
    high: float
    step: int = 1
    searched = True

    @property
    def whole(self) -> bool:
        """Whether the values are whole numbers."""
        return isinstance(self.low, int)

    def contains(self, value: Any) -> bool:
        if not is_number(value) or not self.low <= value <= self.high:
            return False
        if self.kind == "pow2":
            return is_power_of_two(value)
        if self.kind == "int":
            return (value - self.low) % self.step == 0
        return not self.whole or value == int(value)

    def nearest(self, value: Any) -> Any:
        if self.contains(value):
            return value
        if not is_number(value):
            return self.from_unit(0.5)
        return self.from_unit(self.to_unit(min(max(value, self.low), self.high)))

    def to_unit(self, value: float) -> float:
        count = self.count()
        if self.kind == "pow2":
            return (round(math.log2(value / self.low)) + 0.5) / count
        if self.kind == "int":
            return (round((value - self.low) / self.step) + 0.5) / count
        start, end = self._span()
        position = {"uniform": _same_number, "log": math.log, "near_one": _log_to_one}[self.kind](value)
        return min(max((position - start) / (end - start), 0.0), 1.0)

    def from_unit(self, unit: float) -> float | int:
        if self.kind == "pow2":
            return self.low << _cell(unit, self.count())
        if self.kind == "int":
            return self.low + self.step * _cell(unit, self.count())
        start, end = self._span()
        position = start + min(max(float(unit), 0.0), 1.0) * (end - start)
        return self._clip({"uniform": _same_number, "log": math.exp, "near_one": _from_log_to_one}[self.kind](position))

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.kind == "pow2":
            return IntDistribution(self.low.bit_length() - 1, self.high.bit_length() - 1)
        if self.kind == "near_one":
            return FloatDistribution(1 - self.high, 1 - self.low, log=True)
        if self.whole:
            return IntDistribution(self.low, self.high, log=self.kind == "log", step=self.step)
        return FloatDistribution(self.low, self.high, log=self.kind == "log")

    def to_optuna(self, value: float) -> float | int:
        if self.kind == "pow2":
            return int(value).bit_length() - 1
        return min(max(1 - value, 1 - self.high), 1 - self.low) if self.kind == "near_one" else value

    def from_optuna(self, suggestion: float) -> float | int:
        if self.kind == "pow2":
            return 1 << int(suggestion)
        return self._clip(1 - suggestion if self.kind == "near_one" else suggestion)

    def toml(self) -> dict:
        return {self.kind: [self.low, self.high]}

    def count(self) -> int:
        if self.kind == "pow2":
            return self.high.bit_length() - self.low.bit_length() + 1
        return (self.high - self.low) // self.step + 1 if self.kind == "int" else 0

    def _span(self) -> tuple[float, float]:
        """The ends where the range is even; whole numbers are half a unit wide on either side, as in Optuna."""
        if self.kind == "near_one":
            return _log_to_one(self.low), _log_to_one(self.high)
        if self.kind == "log":
            margin = 0.5 if self.whole else 0.0
            return math.log(self.low - margin), math.log(self.high + margin)
        return self.low, self.high

    def _clip(self, value: float) -> float | int:
        value = min(max(value, self.low), self.high)
        return round(value) if self.whole else float(value)


Dimension = Fixed | Choice | Range


def is_finite(value: Any) -> bool:
    """Whether `value` is a number that float64 holds; true and false are none."""
    return is_number(value) and -1e300 < value < 1e300  # refuses nan too


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_power_of_two(value: float) -> bool:
    return value == int(value) and value >= 1 and int(value) & (int(value) - 1) == 0


def same(a: Any, b: Any) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _same_number(x: float) -> float:
    return x


def _log_to_one(x: float) -> float:
    return math.log1p(-x)


def _from_log_to_one(position: float) -> float:
    return -math.expm1(position)


def _cell(unit: float, count: int) -> int:
    return min(int(min(max(unit, 0.0), 1.0) * count), count - 1)
