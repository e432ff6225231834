"""Where the best trials sit on an end of what was searched: the optimum may lie beyond, and the study says so."""

from __future__ import annotations

import math
from typing import Any

from sweep import formats, space, warmstart
from sweep.dimensions import Choice, Range

#: On an end: within this share of a range, or on its last value.
OUTERMOST = 0.02
#: Trials that are looked at beside a longer front, the fewest that say anything, and the share of them on one end.
FEW, FEWEST, SHARE = 5, 3, 0.8
#: Most probability that so many are there by chance, were the params of no influence.
CHANCE = 0.01
#: Fewest values of a choice that has ends worth speaking of.
FEWEST_VALUES = 3


def at_ends(data: dict) -> list[dict[str, Any]]:
    """Each searched hyperparameter of which the best trials sit on one end, where the trainer or environment takes more.

    name, end ("lower" or "upper"), bound, trials and of (so many of so many of the best), to: an end worth trying, None for a choice.
    Looked at are the verified front and the best trials behind it, five in all at least: with fewer than three nothing is said."""
    ranked = warmstart.ranked(data)
    on_front = sum(t["is_verified"] and t["number"] in data["front"] for t in ranked)
    best = ranked[: max(FEW, on_front)]
    if len(best) < FEWEST:
        return []
    found = []
    for name, written in (data["study"]["definition"].get("dimensions") or {}).items():
        try:
            dimension = space.parse(name, written, "study")
        except space.SpaceError:  # of a study that another version wrote
            continue
        values = [t["params"].get(name) for t in best]
        if not all(map(space.is_finite, values)):
            continue
        for end in ("lower", "upper"):
            count = sum(_on_end(dimension, value, end) for value in values)
            if _many(count, len(best), dimension) and (beyond := _beyond(data, name, dimension, end)):
                found.append({"name": name, "end": end, "trials": count, "of": len(best), **beyond})
    return found


def sentence(found: dict[str, Any]) -> str:
    """One of `at_ends`, for a person."""
    where = f"The best trials sit on the {found['end']} end of {found['name']} ({_text(found['bound'])}), {found['trials']} of {found['of']}: "
    if found["to"] is None:
        return f"{where}add {'smaller' if found['end'] == 'lower' else 'larger'} values to the choice"
    return f"{where}widen the range to {_text(found['to'])}"


def _many(count: int, of: int, dimension: Any) -> bool:
    """Whether so many are too many for chance: of few values each is often met, so nearly all must be on the end."""
    cell = max(OUTERMOST, 1 / (dimension.count() or math.inf))
    by_chance = sum(math.comb(of, k) * cell**k * (1 - cell) ** (of - k) for k in range(count, of + 1))
    return count >= SHARE * of and by_chance <= CHANCE


def _text(value: float) -> str:
    return f"{value:.10g}"


def _on_end(dimension: Any, value: float, end: str) -> bool:
    if isinstance(dimension, Range):
        unit = dimension.to_unit(min(max(value, dimension.low), dimension.high))
        last = dimension.low if end == "lower" else dimension.high
        return value == last or (unit if end == "lower" else 1.0 - unit) <= OUTERMOST
    if isinstance(dimension, Choice) and dimension.ordered and len(dimension.values) >= FEWEST_VALUES:
        return value == dimension.values[0 if end == "lower" else -1]
    return False


def _beyond(data: dict, name: str, dimension: Any, end: str) -> dict[str, Any] | None:
    """The end and one worth trying; None where there is nothing beyond."""
    ends = (dimension.low, dimension.high) if isinstance(dimension, Range) else (dimension.values[0], dimension.values[-1])
    bound = ends[0] if end == "lower" else ends[1]
    low, high, multiple = _legal(data, name)
    target = formats.goal(data["study"]["definition"]).target
    if name == "try_from" and end == "upper" and target is not None and bound >= target:
        return None  # a solve that is tried later than where it counts only loses time
    if (bound <= low if end == "lower" else bound >= high):
        return None
    if isinstance(dimension, Choice):
        return {"bound": bound, "to": None}
    to = min(max(_wider(dimension, end, multiple), low), high)
    return None if to == bound else {"bound": bound, "to": to}


def _wider(r: Range, end: str, multiple: int) -> float:
    """The end of a range half as long again on this side, to two digits; of powers of two, two more."""
    sign = -1 if end == "lower" else 1
    bound = r.low if end == "lower" else r.high
    if r.kind == "pow2":
        return max(1, bound // 4) if end == "lower" else bound * 4
    if r.kind == "int":
        return bound + sign * multiple * max(1, round((r.high - r.low) / (2 * multiple)))
    if r.kind == "log":
        to = _rounded(bound * math.sqrt(r.high / r.low) ** sign)
        return max(1, round(to)) if r.whole else to
    if r.kind == "near_one":
        factor = math.sqrt((1 - r.low) / (1 - r.high))
        # Never to 0, where the range would end: half-way there at most.
        return 1 - _rounded(min((1 - r.low) * factor, 1 - r.low / 2) if end == "lower" else (1 - r.high) / factor)
    return bound + sign * _rounded(0.5 * (r.high - r.low))


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def _legal(data: dict, name: str) -> tuple[float, float, int]:
    """(lowest, highest, multiple) that the trainer or the environment takes; infinite where that is unknown."""
    from trainer_native import config, environments

    known = config.HYPERPARAMETERS.get(name)
    if known is None:
        try:
            known = environments.find(data["study"]["env"]).params.get(name)
        except (environments.HeaderError, OSError):  # it was moved, or does not compile any more
            known = None
    if known is None or known.low is None:
        return -math.inf, math.inf, 1
    return known.low, known.high, known.multiple
