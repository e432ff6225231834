"""Learning curves side by side as one SVG: each seed, the means, and the band that ours must not leave."""

from __future__ import annotations

import learning_bands
import numpy as np

PANEL_WIDTH, PANEL_HEIGHT = 420, 300
LEFT, TOP, GAP, BOTTOM = 46, 58, 60, 46
HIGHEST = 500   # the most an episode of CartPole-v1 earns
OURS, THEIRS, INK, MUTED, LINE = "#0a66ad", "#c2570c", "#1c2430", "#5f6b7a", "#e1e6eb"


def draw(rows: list[tuple[dict, dict]]) -> str:
    """The figure of what compare_learning.py found: pairs of a result and the runs and recording behind it."""
    width = LEFT + len(rows) * PANEL_WIDTH + (len(rows) - 1) * GAP + 16
    height = TOP + PANEL_HEIGHT + BOTTOM
    panels = [_panel(LEFT + at * (PANEL_WIDTH + GAP), *row) for at, row in enumerate(rows)]
    return "\n".join([
        (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="12">'),
        f'<rect width="{width}" height="{height}" fill="#fefefe"/>', *panels, "</svg>\n"])


def _panel(left: float, row: dict, found: dict) -> str:
    last = row["env_steps"]
    curve = {name: np.array(values) for name, values in row["curve"].items()}

    def x(env_steps):
        return left + PANEL_WIDTH * np.asarray(env_steps) / last

    def y(returns):
        return TOP + PANEL_HEIGHT * (1 - np.clip(returns, 0, HIGHEST) / HIGHEST)

    def path(env_steps, returns, colour, stroke, opacity=1.0) -> str:
        known = ~np.isnan(returns)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x(env_steps)[known], y(returns)[known], strict=True))
        return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{stroke}" opacity="{opacity}"/>'

    grid = found["runs"][0].curve[:, 2].astype(np.int64)
    thin = [path(grid, others, THEIRS, 0.7, 0.25) for others in learning_bands.curves_of(found["recording"], grid)]
    thin += [path(grid, run.curve[:, 3], OURS, 0.7, 0.25) for run in found["runs"]]
    low, high = y(curve["others_mean"] - curve["half_band"]), y(curve["others_mean"] + curve["half_band"])
    around = [f"{a:.1f},{b:.1f}" for a, b in zip(x(curve["env_steps"]), high, strict=True)]
    around += [f"{a:.1f},{b:.1f}" for a, b in zip(x(curve["env_steps"])[::-1], low[::-1], strict=True)]
    parts = [f'<text x="{left}" y="20" fill="{INK}" font-size="14" font-weight="600">{row["with"]}</text>',
             (f'<text x="{left}" y="38" fill="{MUTED}">{row["seeds"]} seeds each; band p = {row["band_p"]:.2f}, '
             f'whole curves p = {row["curves_p"]:.2f}</text>')]
    for value in range(0, HIGHEST + 1, 100):
        parts.append(f'<line x1="{left}" x2="{left + PANEL_WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="{LINE}"/>')
        parts.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end" fill="{MUTED}">{value}</text>')
    for share in range(5):
        at = last * share / 4
        parts.append(f'<text x="{x(at):.1f}" y="{TOP + PANEL_HEIGHT + 17}" text-anchor="middle" fill="{MUTED}">{at / 1000:.0f}k</text>')
    parts += [f'<polygon points="{" ".join(around)}" fill="{THEIRS}" opacity="0.18"/>', *thin,
              path(curve["env_steps"], curve["others_mean"], THEIRS, 2.2), path(curve["env_steps"], curve["mean"], OURS, 2.2),
              (f'<text x="{left + PANEL_WIDTH / 2}" y="{TOP + PANEL_HEIGHT + 35}" text-anchor="middle" fill="{MUTED}">env steps; '
              f'vertical: mean return of the last {learning_bands.EPISODES} training episodes</text>')]
    legend = [(THEIRS, f"{row['with']}: mean, 95% band, each seed"), (OURS, "this trainer: mean, each seed")]
    for at, (colour, words) in enumerate(legend):
        height = TOP + PANEL_HEIGHT - 34 + 17 * at
        parts.append(f'<line x1="{left + 90}" x2="{left + 110}" y1="{height - 4}" y2="{height - 4}" stroke="{colour}" stroke-width="2.2"/>')
        parts.append(f'<text x="{left + 116}" y="{height}" fill="{INK}">{words}</text>')
    return "\n".join(parts)
