"""The timeline of a LeaderWorkerSet's groups as one SVG file: a line a group, a mark for each thing that happened. Pure.

Plain SVG without scripts or fonts of its own: it opens in any browser and goes into any report.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape as escape_html

from regroup.leaderworkerset.telling.history import DEFERRED, EXHAUSTED, FORCED, RECREATED, RESTARTED, SKIPPED, Entry, plotted
from regroup.runtime.clock import timestamp

GROUPS_LIMIT = 200
"""Lines that are drawn; a picture of more could not be read."""
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 1100, 150, 30, 80, 28
_COLOURS = {
    RECREATED: "#d97706",
    EXHAUSTED: "#b91c1c",
    DEFERRED: "#0891b2",
    SKIPPED: "#9333ea",
    FORCED: "#1f2937",
    RESTARTED: "#65a30d",
}
_STEPS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 604_800)
"""Seconds between two ticks, of which the smallest is taken that keeps ticks apart."""
_TICKS = 10
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold in any way."""


def draw(entries: Sequence[Entry], *, title: str) -> str:
    """The whole file. Texts are escaped; times are UTC."""
    groups = list(plotted(entries))[:GROUPS_LIMIT]
    drawn = [entry for entry in entries if entry.group in set(groups)]
    height = _TOP + _ROW * max(1, len(groups)) + 50
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="20" y="28" font-size="16" font-weight="bold">{escape(title)}</text>',
        *_legend(),
    ]
    if not drawn:
        parts.append(f'<text x="20" y="{_TOP + 10}">nothing is known to have happened</text>')
    else:
        start, end = min(entry.at for entry in drawn), max(entry.last or entry.at for entry in drawn)
        end = max(end, start + timedelta(seconds=1))
        bottom = _TOP + _ROW * len(groups)
        parts += _axis(start, end, bottom=bottom)
        for row, group in enumerate(groups):
            y = _TOP + _ROW * row + _ROW // 2
            parts.append(f'<text x="20" y="{y + 4}">group {escape(group[:12] or "?")}</text>')
            parts.append(f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#e5e7eb" stroke-width="2"/>')
            parts += [_mark(entry, x=_x(entry.at, start, end), y=y) for entry in drawn if entry.group == group]
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    parts, x = [], 20
    for what, colour in _COLOURS.items():
        parts.append(f'<circle cx="{x + 5}" cy="46" r="5" fill="{colour}"/><text x="{x + 15}" y="50">{what}</text>')
        x += 30 + 7 * len(what)
    return parts


def _axis(start: datetime, end: datetime, *, bottom: int) -> list[str]:
    span = (end - start).total_seconds()
    step = next((step for step in _STEPS if span / step <= _TICKS), _STEPS[-1])
    parts: list[str] = []
    moment = start
    while moment <= end and len(parts) <= 4 * _TICKS:
        x = _x(moment, start, end)
        parts.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" stroke="#f3f4f6"/>')
        label = f"{moment:%m-%d %H:%M}" if step >= 3600 else f"{moment:%H:%M:%S}"
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle" fill="#6b7280">{label}</text>')
        moment += timedelta(seconds=step)
    parts.append(f'<text x="20" y="{bottom + 40}" fill="#6b7280">{timestamp(start)} to {timestamp(end)}</text>')
    return parts


def _mark(entry: Entry, *, x: float, y: int) -> str:
    code = "" if entry.exit_code is None else f", exit code {entry.exit_code}"
    where = f" {entry.pod}" + (f"/{entry.container}" if entry.container else "") if entry.pod else ""
    told = f"{timestamp(entry.at)} {entry.what}{where}{code}" + (f", {entry.times} times" if entry.times > 1 else "")
    tip = escape(f"{told}\n{entry.cause}")
    return f'<circle cx="{x}" cy="{y}" r="7" fill="{_COLOURS.get(entry.what, "#6b7280")}"><title>{tip}</title></circle>'


def escape(text: str) -> str:
    """Text for an SVG file."""
    return escape_html(_NO_XML.sub("\ufffd", text))


def _x(moment: datetime, start: datetime, end: datetime) -> float:
    share = (moment - start).total_seconds() / (end - start).total_seconds()
    return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)
