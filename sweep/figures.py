"""A study's results -> Plotly figures; pure, and every figure survives having nothing to show.

Everything is drawn as SVG, thinned to what the eye can tell apart: it prints, and it needs no WebGL.
"""

from __future__ import annotations

import html
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from . import statistics
from .formats import duration, finite, number, param, percent, real, seconds, short, whole
from .look import CLAIMED, DASHES, INK, SERIES, SURFACE, UNVERIFIED, VERIFIED, empty, level, log_axis, nothing

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Most trials in the curves over seeds: more cannot be told apart.
MOST_CURVES = 5
#: Most measured trials of one size that are drawn although they are not verified: the best ones.
MOST_UNVERIFIED = 5
#: Verified trials of one size stand side by side, this far from their true size at most, in decades (4%).
ASIDE = math.log10(1.04)
#: Most claims that are all drawn; of more, those that would cover one another are not.
MOST_DOTS = 1500


# -- what a trial is shown by ----------------------------------------------------------------------------------


def summary(trial: dict) -> dict:
    """What is best known about `trial`: measured alone where it was, else what the search claims; {} where neither."""
    return trial.get("verified") or trial.get("search") or {}


def time_of(of: dict | None, measure: str = "restart_ert") -> float | None:
    """Seconds of a summary, finite and above zero, else None. `measure`: restart_ert or median."""
    value = finite(((of or {}).get("seconds") or {}).get(measure))
    return value if value is not None and value > 0 else None


def state(trial: dict) -> str:
    """`verified`, `unverified` (measured again, with too few seeds or solves) or `claimed` (by the search only)."""
    return "verified" if trial.get("is_verified") else "unverified" if trial.get("verified") else "claimed"


def by_number(data: dict) -> dict[int, dict]:
    """The study's trials by their number."""
    return {t["number"]: t for t in data.get("trials") or []}


def finalists(data: dict) -> list[dict]:
    """The trials measured again, recommended first, then by restart ERT; where there are none, the front as claimed."""
    trials = data.get("trials") or []
    chosen = [t for t in trials if t.get("verification")]
    if not chosen:
        front = set(data.get("front") or [])
        chosen = [t for t in trials if t["number"] in front]

    def key(trial):
        rank = ("verified", "unverified", "claimed").index(state(trial))
        return trial["number"] != data.get("recommended"), rank, time_of(summary(trial)) or math.inf, trial["number"]

    return sorted(chosen, key=key)


def varied(data: dict) -> list[str]:
    """The params that differ between trials, in the order they stand in."""
    first: dict[str, Any] = {}
    found: dict[str, None] = {}
    for trial in data.get("trials") or []:
        for name, value in (trial.get("params") or {}).items():
            if first.setdefault(name, value) != value:
                found[name] = None
    return [name for name in first if name in found]


def _hover(trial: dict, names: list[str], claim: bool) -> str:
    of = trial.get("search") if claim else summary(trial)
    of = of or {}
    time = of.get("seconds") or {}
    low, high = finite(time.get("low")), real(time.get("high"))
    span = f" [{number(low)}, {number(high)}]" if low is not None and high is not None else ""
    lines = [
        f"<b>trial {trial['number']}</b>, {'claimed by the search' if claim else state(trial)}",
        f"{whole(trial.get('parameters'))} parameters",
        f"restart ERT {seconds(time.get('restart_ert'))}, median {seconds(time.get('median'))}{span}",
        f"solved {whole(of.get('solved'))} of {whole(of.get('runs'))}",
    ]
    params = trial.get("params") or {}
    pairs = [html.escape(f"{n} {param(params[n])}"[:60]) for n in names[:24] if n in params]
    lines += [" · ".join(pairs[i : i + 3]) for i in range(0, len(pairs), 3)]
    return "<br>".join(lines)


# -- the front -------------------------------------------------------------------------------------------------


def _thin(points: list[tuple[float, float, dict]], most: int = MOST_DOTS) -> list[tuple[float, float, dict]]:
    """One point for each spot of a 140 × 90 grid in log space, where there are more than `most`."""
    if len(points) <= most:
        return points
    xy = np.log10([[p[0], p[1]] for p in points])
    low = xy.min(axis=0)
    span = np.maximum(xy.max(axis=0) - low, 1e-9)
    cells = np.floor((xy - low) / span * [140, 90]).astype(int)
    _, keep = np.unique(cells[:, 0] * 1000 + cells[:, 1], return_index=True)
    return [points[i] for i in sorted(keep)]


def _aside(xs: list[float], most: float = ASIDE) -> list[float]:
    """`xs` with equal ones moved to stand side by side, `most` decades at most; the first of each stays where it is."""
    alike, seen = Counter(xs), Counter()
    moved = []
    for x in xs:
        k = seen[x]
        seen[x] += 1
        width = most / max(1, alike[x] // 2)
        moved.append(x * 10 ** (width * ((k + 1) // 2) * (1 if k % 2 else -1)))
    return moved


def _drawn_measured(measured: list[dict]) -> list[dict]:
    """All that are verified; of the others the first MOST_UNVERIFIED of each size."""
    seen: Counter = Counter()
    drawn = []
    for trial in measured:
        if state(trial) != "verified":
            seen[trial["parameters"]] += 1
            if seen[trial["parameters"]] > MOST_UNVERIFIED:
                continue
        drawn.append(trial)
    return drawn


def front(data: dict, measure: str = "restart_ert") -> Figure:
    """Network size against time to solve, both log: claims, finalists with intervals, the front, the recommended trial.

    `measure`: restart_ert, which the front is made of, or median.
    """
    import plotly.graph_objects as go

    trials = data.get("trials") or []
    names = varied(data)
    sized = [t for t in trials if (finite(t.get("parameters")) or 0) > 0]
    claims = [(t["parameters"], time_of(t.get("search"), measure), t) for t in sized]
    claims = [c for c in claims if c[1] is not None]
    listed = finalists(data)
    measured = [t for t in listed if t in sized and t.get("verified") and time_of(t["verified"], measure)]
    measured = _drawn_measured(measured)
    verified = [t for t in measured if state(t) == "verified"]
    if not claims and not measured:
        return nothing("No trial has solved yet, so there is nothing to place.")
    times = [c[1] for c in claims] + [time_of(t["verified"], measure) for t in measured]
    sizes = [c[0] for c in claims] + [t["parameters"] for t in measured]
    title = "restart ERT" if measure == "restart_ert" else "median time to solve"
    bounds = [finite((t["verified"].get("seconds") or {}).get(k)) for t in verified for k in _interval(measure)]
    xaxis = log_axis(sizes, "network size, trainable parameters", short, pad=0.1)
    if len(set(sizes)) == 1:
        xaxis.update(tickvals=[sizes[0]], ticktext=[whole(sizes[0])])
    yaxis = log_axis(times + [b for b in bounds if b and b > 0], title + ", seconds")
    top = 10 ** yaxis["range"][1] * 10

    figure = empty(500, xaxis=xaxis, yaxis=yaxis)
    drawn = _thin(claims)
    kinds = ((True, "claimed, fewer than 4 seeds", "circle-open"), (False, "claimed, 4 seeds or more", "circle"))
    for few, label, symbol in kinds:
        some = [c for c in drawn if ((finite(c[2]["search"].get("runs")) or 0) < 4) == few]
        if some:
            figure.add_trace(go.Scatter(
                x=[c[0] for c in some], y=[c[1] for c in some], mode="markers", name=label, hoverinfo="text",
                marker={"size": 6, "color": CLAIMED, "symbol": symbol, "opacity": 0.6 if few else 0.9},
                hovertext=[_hover(c[2], names, claim=True) for c in some],
            ))

    members = [by_number(data)[n] for n in data.get("front") or [] if n in by_number(data)]
    members = [t for t in members if t.get("is_verified")] or members  # claims are a front of their own
    if measure == "restart_ert":
        steps = sorted((t["parameters"], time_of(summary(t))) for t in members if t in sized and time_of(summary(t)))
        if len(steps) > 1:
            figure.add_trace(go.Scatter(
                x=[s[0] for s in steps], y=[s[1] for s in steps], mode="lines", name="the front", hoverinfo="skip",
                line={"color": INK, "width": 1.5, "dash": "dot", "shape": "hv"},
            ))

    place = {t["number"]: t["parameters"] for t in measured}
    place.update(zip([t["number"] for t in verified], _aside([t["parameters"] for t in verified]), strict=True))
    links: tuple[list, list] = ([], [])
    for t in measured:
        claim = time_of(t.get("search"), measure)
        if claim is not None:
            links[0].extend([t["parameters"], place[t["number"]], None])
            links[1].extend([claim, time_of(t["verified"], measure), None])
    if links[0]:
        figure.add_trace(go.Scatter(
            x=links[0], y=links[1], mode="lines", name="from claim to measurement", hoverinfo="skip",
            line={"color": CLAIMED, "width": 1}, opacity=0.8,
        ))
    for kind, colour, symbol in (("unverified", UNVERIFIED, "diamond-open"), ("verified", VERIFIED, "circle")):
        some = [t for t in measured if state(t) == kind]
        if not some:
            continue
        ys = [time_of(t["verified"], measure) for t in some]
        low_key, high_key = _interval(measure)
        up, down = [], []
        for t, y in zip(some, ys, strict=True):
            time = t["verified"].get("seconds") or {}
            low, high = finite(time.get(low_key)), real(time.get(high_key))
            down.append(max(0.0, y - low) if low is not None else 0.0)
            up.append(0.0 if high is None else max(0.0, min(high, top) - y))
        label = "verified" if kind == "verified" else "measured again, not verified"
        whiskers = {"type": "data", "array": up, "arrayminus": down, "thickness": 1, "width": 2, "color": colour}
        figure.add_trace(go.Scatter(
            x=[place[t["number"]] for t in some], y=ys, mode="markers", name=label, hoverinfo="text",
            hovertext=[_hover(t, names, claim=False) for t in some],
            marker={"size": 9, "color": colour, "symbol": symbol,
                    "line": {"width": 1, "color": SURFACE if kind == "verified" else colour}},
            error_y=whiskers if kind == "verified" else None,
        ))
    best = by_number(data).get(data.get("recommended"))
    if best is not None and best["number"] in place:
        x, y = place[best["number"]], time_of(best["verified"], measure)
        figure.add_trace(go.Scatter(
            x=[x], y=[y], mode="markers", name=f"recommended, trial {best['number']}", hoverinfo="skip",
            marker={"size": 20, "color": "rgba(0,0,0,0)", "line": {"width": 2, "color": INK}},
        ))
    return figure


def _interval(measure: str) -> tuple[str, str]:
    return ("restart_ert_low", "restart_ert_high") if measure == "restart_ert" else ("low", "high")


# -- over the seeds of the finalists ----------------------------------------------------------------------------


def _shown_runs(trial: dict) -> list[dict]:
    """The runs that speak for a finalist: those that measured it again, else those of the search."""
    return trial.get("verification") or trial.get("runs") or []


def outcomes(trial: dict) -> list[tuple[float, bool]]:
    """(seconds, solved) of a finalist's runs for Kaplan–Meier; see `statistics.outcome`."""
    pairs = []
    for run in _shown_runs(trial):
        time = finite(run.get("seconds"))
        if time is not None and time >= 0:
            pairs.append(statistics.outcome(run["status"], time, run.get("reason") or ""))
    return [p for p in pairs if p is not None]


def _label(trial: dict) -> str:
    size = whole(trial.get("parameters"))
    return f"trial {trial['number']}, {size} parameters" + (", claimed" if state(trial) == "claimed" else "")


def kaplan_meier(data: dict) -> Figure:
    """The share of seeds solved against seconds, for at most MOST_CURVES finalists; ticks where a run was stopped."""
    import plotly.graph_objects as go

    shown = [(t, o) for t in finalists(data) if (o := outcomes(t))][:MOST_CURVES]
    if not any(solved for _, pairs in shown for _, solved in pairs):
        return nothing("No finalist has solved yet.")
    figure = empty(400)
    solves = [time for _, pairs in shown for time, solved in pairs if solved and time > 0] or [1.0]
    begin = 0.7 * min(solves)
    end = max(time for _, pairs in shown for time, _ in pairs if math.isfinite(time))
    for i, (trial, pairs) in enumerate(shown):
        at, left = statistics.kaplan_meier([p[0] for p in pairs], [p[1] for p in pairs])
        steps = [(begin, 0.0)] + [(float(t), 1 - float(s)) for t, s in zip(at, left, strict=True) if t > 0]
        last = end if any(math.isinf(time) for time, _ in pairs) else max(time for time, _ in pairs)
        steps.append((max(last, steps[-1][0]), steps[-1][1]))
        line = {"color": SERIES[i % len(SERIES)], "dash": DASHES[i % len(DASHES)], "width": 2.5, "shape": "hv"}
        figure.add_trace(go.Scatter(
            x=[s[0] for s in steps], y=[s[1] for s in steps], mode="lines", line=line, name=_label(trial),
            legendgroup=str(i),
            hovertemplate="%{y:.0%} solved by %{x:.3~g} s<extra>trial " + str(trial["number"]) + "</extra>",
        ))
        stopped = sorted(time for time, solved in pairs if not solved and math.isfinite(time))
        if stopped:
            heights = [max([s[1] for s in steps if s[0] <= x], default=0.0) for x in stopped]
            figure.add_trace(go.Scatter(
                x=stopped, y=heights, mode="markers", showlegend=False, legendgroup=str(i),
                marker={"symbol": "line-ns", "size": 9, "line": {"width": 1.5, "color": line["color"]}},
                hovertemplate="stopped unsolved at %{x:.3~g} s<extra>trial " + str(trial["number"]) + "</extra>",
            ))
    figure.update_layout(xaxis=log_axis([begin, max(end, 1.2 * begin)], "seconds since the first env step", pad=0.02))
    figure.update_yaxes(title_text="share of seeds solved", range=[0, 1.03], tickformat=".0%")
    return figure


def _curve(data: dict, run: dict) -> np.ndarray | None:
    """The run's learning curve [points, 4] (CPU seconds, seconds, env steps, mean return), finite rows only."""
    curve = run.get("curve")
    if curve is None:
        curve = (data.get("curves") or {}).get(run.get("id"))
    if curve is None:
        return None
    try:
        curve = np.asarray(curve, dtype=float).reshape(-1, 4)
    except (TypeError, ValueError):
        return None
    curve = curve[np.isfinite(curve[:, 1:]).all(axis=1)]
    return curve if len(curve) else None


def _soon(end: float, solves: list[float]) -> float:
    """Where an axis ends: past everything, but not long after nine in ten solves."""
    return min(1.03 * end, 1.5 * float(np.quantile(solves, 0.9))) if solves else 1.03 * end


def learning_curves(data: dict, against: str = "seconds", goal: float | None = None, what: str = "mean return") -> Figure:
    """Mean training return of each seed (faint) and their median (bold) for at most MOST_CURVES finalists.

    `against`: seconds or env_steps. `goal`: the mean return that solves, or `what` else.
    """
    import plotly.graph_objects as go

    column, unit = (1, "seconds since the first env step") if against == "seconds" else (2, "env steps")
    figure = empty(400)
    drawn, end = 0, 0.0
    ends: list[float] = []
    for trial in finalists(data):
        runs = [(c, r) for r in _shown_runs(trial) if (c := _curve(data, r)) is not None]
        if not runs or drawn >= MOST_CURVES:
            continue
        colour, dash, group = SERIES[drawn % len(SERIES)], DASHES[drawn % len(DASHES)], str(drawn)
        seen = True if drawn < 3 else "legendonly"
        xs: list = []
        ys: list = []
        for c, _ in runs[:16]:
            xs.extend([*c[:, column].tolist(), None])
            ys.extend([*c[:, 3].tolist(), None])
        faint = {"color": colour, "width": 1}
        figure.add_trace(go.Scatter(x=xs, y=ys, mode="lines", line=faint, opacity=0.22, hoverinfo="skip", visible=seen,
                                    showlegend=False, legendgroup=group))
        last = max(float(c[-1, column]) for c, _ in runs)
        grid = np.linspace(min(float(c[0, column]) for c, _ in runs), last, 100)
        middle = np.median([np.interp(grid, c[:, column], c[:, 3]) for c, _ in runs], axis=0)
        figure.add_trace(go.Scatter(
            x=grid, y=middle, mode="lines", line={"color": colour, "width": 2.5, "dash": dash}, name=_label(trial),
            legendgroup=group, visible=seen,
            hovertemplate="median %{y:.3~s} at %{x:.3~s}<extra>trial " + str(trial["number"]) + "</extra>",
        ))
        key = "seconds" if against == "seconds" else "env_steps"
        solves = [r for _, r in runs if r.get("status") == "solved"]
        solved = [(finite(r.get(key)), finite(r.get(what.replace(" ", "_"))), r.get("seed")) for r in solves]
        solved = [s for s in solved if s[0] is not None and s[1] is not None]
        figure.add_trace(go.Scatter(
            x=[s[0] for s in solved], y=[s[1] for s in solved], mode="markers", showlegend=False, legendgroup=group,
            visible=seen, marker={"size": 6, "color": colour, "line": {"width": 1, "color": SURFACE}}, hoverinfo="text",
            hovertext=[f"trial {trial['number']}, seed {html.escape(str(s[2]))}: solved" for s in solved],
        ))
        if seen is True:
            ends.extend(s[0] for s in solved)
            end = max([end, last, *ends])
        drawn += 1
    if not drawn:
        return nothing("No learning curve of a finalist is stored.")
    if goal is not None:
        level(figure, goal, goal, f"solved: {number(goal)}")
    figure.update_xaxes(title_text=unit, range=[0, _soon(end, ends) or 1.0])
    figure.update_yaxes(title_text=f"{what} in training")
    return figure


# -- how the search went -----------------------------------------------------------------------------------------


def _clock(end: float) -> tuple[int, str]:
    """(seconds in a unit, its name) that suits an axis of time up to `end` seconds."""
    return (1, "seconds") if end < 180 else (60, "minutes") if end < 3 * 3600 else (3600, "hours")


def search(data: dict) -> Figure:
    """The best restart ERT that the search claimed so far, against the time it had taken."""
    import plotly.graph_objects as go

    steps = data.get("search") or []
    points = [(finite(p.get("elapsed_seconds")), finite(p.get("best_restart_ert")), p.get("trial")) for p in steps]
    points = sorted((p for p in points if p[0] is not None and p[1] is not None and p[1] > 0), key=lambda p: p[0])
    if not points:
        return nothing("No trial has solved yet.")
    end = max([points[-1][0], *(finite(p.get("elapsed_seconds")) or 0 for p in steps)])
    scale, unit = _clock(end)
    line = [*points, (end, points[-1][1], points[-1][2])]
    figure = empty(320)
    figure.add_trace(go.Scatter(
        x=[p[0] / scale for p in line], y=[p[1] for p in line], mode="lines+markers" if len(line) < 200 else "lines",
        line={"color": VERIFIED, "width": 2.5, "shape": "hv"}, marker={"size": 6}, showlegend=False, hoverinfo="text",
        hovertext=[f"{seconds(p[1])} by trial {html.escape(str(p[2]))}<br>after {duration(p[0])}" for p in line],
    ))
    values = [p[1] for p in points]
    best = by_number(data).get(data.get("recommended"))
    measured = time_of((best or {}).get("verified"))
    if measured is not None:
        values.append(measured)
        level(figure, measured, math.log10(measured), f"recommended, measured: {seconds(measured)}")
    figure.update_layout(yaxis=log_axis(values, "best claimed restart ERT, seconds", pad=0.1))
    figure.update_xaxes(title_text=f"{unit} of search", range=[0, end / scale * 1.02 or 1])
    return figure


def worker_time(data: dict) -> list[tuple[str, float]]:
    """(what, seconds) for all the time of the workers and of the coordinator that is known."""
    trials = data.get("trials") or []
    spent: dict[str, float] = {}
    for trial in trials:
        for run in trial.get("runs") or []:
            name = f"search: {run.get('status')}"
            spent[name] = spent.get(name, 0.0) + (finite(run.get("seconds")) or 0.0)
        for run in trial.get("verification") or []:
            spent["measuring finalists"] = spent.get("measuring finalists", 0.0) + (finite(run.get("seconds")) or 0.0)
    ordered = [f"search: {s}" for s in ("solved", "censored", "diverged", "crashed")] + ["measuring finalists"]
    parts = [(name, spent[name]) for name in ordered if spent.get(name)]
    counts = data.get("counts") or {}
    for name, key in (("choosing trials", "sampler_seconds"), ("platform", "platform_seconds")):
        if took := finite(counts.get(key)):
            parts.append((name, took))
    return parts


def time_spent(data: dict) -> Figure:
    """Where the time of the workers went, as bars."""
    import plotly.graph_objects as go

    parts = worker_time(data)
    total = sum(p[1] for p in parts)
    if not total:
        return nothing("No run has ended yet.")
    scale, unit = _clock(max(p[1] for p in parts))
    good = ("search: solved", "measuring finalists")
    colours = [VERIFIED if name in good else CLAIMED for name, _ in parts]
    figure = empty(90 + 36 * len(parts), bargap=0.35)
    figure.add_trace(go.Bar(
        x=[p[1] / scale for p in parts], y=[p[0] for p in parts], orientation="h", marker={"color": colours},
        text=[f"{duration(p[1]) if p[1] >= 100 else seconds(p[1])}, {percent(p[1] / total)}" for p in parts],
        hoverinfo="skip", textposition="outside", cliponaxis=False, textfont={"color": INK}, showlegend=False,
    ))
    figure.update_xaxes(title_text=unit, range=[0, max(p[1] for p in parts) / scale * 1.8])
    figure.update_yaxes(autorange="reversed", ticks="", showline=False)
    return figure
