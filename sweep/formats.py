"""Numbers as people read them: three significant digits, a unit, and a dash where there is none."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

ABSENT = "–"
_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def real(value: Any) -> float | None:
    """`value` as a float, infinite ones included; None for None, not-a-number and whatever is no number."""
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(value) else value


def finite(value: Any) -> float | None:
    """`value` as a finite float, else None."""
    value = real(value)
    return None if value is None or math.isinf(value) else value


def number(value: Any) -> str:
    """Three significant digits: 0.0123, 12.3, 12,300; beyond that 1.2e-05 and 1.23e+09."""
    value = real(value)
    if value is None:
        return ABSENT
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    value = float(f"{value:.3g}")
    size = abs(value)
    if size < 1e-3 or size >= 1e9:
        text = f"{value:.3g}"
    else:
        decimals = max(0, 2 - math.floor(math.log10(size)))
        text = f"{value:,.{decimals}f}"
    return text.replace("-", "−") if value < 0 and "e" not in text else text


def whole(value: Any) -> str:
    """A count, all of it: 12,345."""
    value = finite(value)
    return ABSENT if value is None else f"{round(value):,}"


def short(value: Any) -> str:
    """A large count, shortened: 950, 12.3k, 4.70M."""
    value = real(value)
    if value is None or math.isinf(value):
        return number(value)
    for scale, letter in _SCALES:
        if abs(float(f"{value:.3g}")) >= scale:
            return number(value / scale) + letter
    return whole(value) if value == round(value) else number(value)


def seconds(value: Any) -> str:
    """A time to solve, in seconds whatever its size, so that a column can be compared: 0.213 s, 12.8 s, 1,230 s."""
    text = number(value)
    return text if text in (ABSENT, "∞") else text + " s"


def duration(value: Any) -> str:
    """A budget or a span, in the unit that suits it: 2.50 s, 15 min, 1 h 30 min."""
    value = finite(value)
    if value is None:
        return ABSENT
    if abs(value) < 100:
        return (whole(value) if value == round(value) else number(value)) + " s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h" + (f" {minutes} min" if minutes else "")


def percent(value: Any) -> str:
    """A share between 0 and 1: 0.4%, 7%, 98%."""
    value = finite(value)
    if value is None:
        return ABSENT
    return f"{100 * value:.1f}%" if 0 < abs(value) < 0.01 else f"{100 * value:.0f}%"


def bytes_(value: Any) -> str:
    """Memory: 24.0 GiB."""
    value = finite(value)
    return ABSENT if value is None else f"{number(value / 2**30)} GiB"


def param(value: Any) -> str:
    """A hyperparameter's value: floats to four digits, the rest as TOML would have it."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.4g}" if math.isfinite(value) else number(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(param(v) for v in value)
    return str(value)


class Goal(NamedTuple):
    """What a study is solved on."""

    what: str  # "mean return" or "mean metric"
    target: float | None
    best: str  # the column of a run that holds the best it reached in training


def goal(definition: dict | None) -> Goal:
    """What the solve of a study's definition asks for."""
    solve = (definition or {}).get("solve") or {}
    if "metric" in solve:
        return Goal("mean metric", finite(solve["metric"]), "best_metric")
    return Goal("mean return", finite(solve.get("mean_return")), "best_return")
