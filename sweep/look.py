"""How every figure looks: colours, font, axes.

Colours are written as they look on white; a page swaps each for its partner in DARK where the reader's system is dark.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from .formats import number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

INK, MUTED, GRID, SURFACE = "#1c2430", "#5f6b7a", "#e4e8ed", "#fefefe"
CLAIMED, UNVERIFIED, VERIFIED = "#9aa5b1", "#c2570c", "#0a66ad"
#: Distinct to colour-blind eyes (after Okabe and Ito), and told apart by DASHES too.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b0578d", "#8a6d00")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
#: Colour on white -> the same colour on a dark page.
DARK = {
    INK: "#e6eaef", MUTED: "#9aa7b6", GRID: "#2b333d", SURFACE: "#1b2129",
    CLAIMED: "#66727f", UNVERIFIED: "#f0a04b", VERIFIED: "#5db5ee",
    "#0072b2": "#56b4e9", "#d55e00": "#f08a4b", "#009e73": "#34c9a0", "#b0578d": "#e29cc4", "#8a6d00": "#e3bd45",
}
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'


def empty(height: int = 420, **layout: Any) -> Figure:
    import plotly.graph_objects as go

    axis = {"gridcolor": GRID, "linecolor": MUTED, "tickcolor": MUTED, "ticks": "outside", "ticklen": 4,
            "zeroline": False, "showline": True, "automargin": True, "title": {"standoff": 12, "font": {"size": 13}}}
    layout = {
        "template": go.layout.Template(layout={"xaxis": axis, "yaxis": axis, "colorway": SERIES}),
        "height": height, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 13, "color": INK},
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"bgcolor": SURFACE, "bordercolor": MUTED, "align": "left",
                       "font": {"family": FONT, "color": INK, "size": 12}},
        "hovermode": "closest", "dragmode": False, **layout,
    }
    return go.Figure(layout=layout)


def nothing(text: str, height: int = 160) -> Figure:
    figure = empty(height, xaxis={"visible": False}, yaxis={"visible": False})
    return figure.add_annotation(text=text, showarrow=False, font={"color": MUTED}, x=0.5, y=0.5,
                                 xref="paper", yref="paper")


def log_axis(values: list[float], title: str, text=number, pad: float = 0.06) -> dict:
    """A log axis that holds `values`, with marks at 1, 2 and 5 (closer together on a short axis) written by `text`."""
    low, high = math.log10(min(values)), math.log10(max(values))
    if high - low < 0.3:
        low, high = low - (0.3 - high + low) / 2, high + (0.3 - high + low) / 2
    low, high = low - pad * (high - low), high + pad * (high - low)

    def mark(value: float) -> str:
        return re.sub(r"\.0+(?=\D|$)|(?<=\.\d)0(?=\D|$)", "", text(value)) if value >= 1 else f"{value:.6g}"

    marks = (1, 2, 5) if high - low <= 3 else (1,)
    if high - low < 0.9:
        marks = (1, 1.5, 2, 3, 4, 5, 6, 8)
    ticks = [m * 10.0**e for e in range(math.floor(low) - 1, math.ceil(high) + 2) for m in marks]
    return {"type": "log", "range": [low, high], "title": {"text": title},
            "tickvals": ticks, "ticktext": [mark(t) for t in ticks]}


def level(figure: Figure, y: float, place: float, text: str) -> None:
    """A dashed line across the figure, `text` at its right end; `place` is y, or log10 of y on a log axis."""
    dashed = {"color": MUTED, "width": 1, "dash": "dash"}
    figure.add_shape(type="line", xref="paper", x0=0, x1=1, y0=y, y1=y, line=dashed)
    figure.add_annotation(xref="paper", x=1, y=place, text=text, showarrow=False, xanchor="right", yanchor="bottom",
                          font={"color": MUTED, "size": 12}, bgcolor=SURFACE, opacity=0.85)
