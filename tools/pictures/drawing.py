"""Diagrams as SVG: boxes, arrows and texts in colours for light and dark, without scripts and fonts."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Literal, NamedTuple

Kind = Literal["box", "yours", "plain"]
# The colours of light and dark, by class: of pages and boxes, their edges, and texts.
LIGHT = {
    "page": "#ffffff",
    "box": "#eef3fb",
    "yours": "#fff4dc",
    "plain": "#f4f5f7",
    "text": "#1c2530",
    "note": "#4a5868",
}
DARK = {
    "page": "#161b22",
    "box": "#1d2a3d",
    "yours": "#3a2d12",
    "plain": "#22282f",
    "text": "#e6edf3",
    "note": "#b3bfcc",
}
EDGES = {"box": ("#3b6fb6", "#6ea3ea"), "yours": ("#a86a00", "#e0a83e"), "plain": ("#4a5868", "#b3bfcc")}
SIZE, NOTE_SIZE = 15, 13
# Of a letter, in ems, in the widest of the usual fonts.
_LETTER = 0.56


class Box(NamedTuple):
    """A box with one line of text, and at most two lines of notes below it.

    Attributes:
        x: Its left edge.
        y: Its upper edge.
        width: Its width.
        height: Its height.
        text: The line.
        notes: The lines below it, in small letters.
        kind: `yours` is the user's code, `plain` what waits or is gone.
    """

    x: int
    y: int
    width: int
    height: int
    text: str
    notes: Sequence[str] = ()
    kind: Kind = "box"

    def svg(self) -> str:
        """Return it as an element."""
        middle = self.x + self.width // 2
        baseline = self.y + self.height // 2 + 5 - 10 * len(self.notes)
        lines = [
            f'<rect class="{self.kind}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8"/>'
        ]
        lines.append(f'<text x="{middle}" y="{baseline}">{escape(self.text)}</text>')
        for number, note in enumerate(self.notes, 1):
            lines.append(f'<text class="note" x="{middle}" y="{baseline + 20 * number}">{escape(note)}</text>')
        return "".join(lines)

    def overflow(self) -> str:
        """Return the text that does not fit into it; empty when all do."""
        texts = [(self.text, SIZE), *((note, NOTE_SIZE) for note in self.notes)]
        return next((text for text, size in texts if len(text) * size * _LETTER > self.width - 4), "")


class Arrow(NamedTuple):
    """An arrow along a path, with a label.

    Attributes:
        path: The path, as SVG writes it.
        label: Its label; may be empty.
        x: The middle of the label.
        y: The baseline of the label.
        is_dashed: Whether it is dashed.
    """

    path: str
    label: str = ""
    x: int = 0
    y: int = 0
    is_dashed: bool = False

    def svg(self) -> str:
        """Return it as an element."""
        dash = ' stroke-dasharray="4 4"' if self.is_dashed else ""
        label = f'<text class="note" x="{self.x}" y="{self.y}">{escape(self.label)}</text>' if self.label else ""
        return f'<path d="{self.path}" marker-end="url(#arrow)"{dash}/>{label}'


class Line(NamedTuple):
    """A dashed line without a head."""

    path: str

    def svg(self) -> str:
        """Return it as an element."""
        return f'<path d="{self.path}" stroke-dasharray="3 4"/>'


class Note(NamedTuple):
    """A line of small letters.

    Attributes:
        x: Its anchor.
        y: Its baseline.
        text: The line.
        anchor: Whether the anchor is its `start`, `middle` or `end`.
    """

    x: int
    y: int
    text: str
    anchor: Literal["start", "middle", "end"] = "middle"

    def svg(self) -> str:
        """Return it as an element."""
        anchor = "" if self.anchor == "middle" else f' text-anchor="{self.anchor}"'
        return f'<text class="note" x="{self.x}" y="{self.y}"{anchor}>{escape(self.text)}</text>'


class Drawing(NamedTuple):
    """A diagram.

    Attributes:
        title: What it shows, in a sentence; the documents have it as the text of the picture.
        width: Its width.
        height: Its height.
        parts: What is drawn, from below to above.
    """

    title: str
    width: int
    height: int
    parts: Sequence[Box | Arrow | Line | Note]

    def svg(self) -> str:
        """Return it as a file."""
        size = f'width="{self.width}" height="{self.height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" {size} '
                f'font-family="system-ui, sans-serif" font-size="{SIZE}" text-anchor="middle">',
                f"<title>{escape(self.title)}</title>",
                style(_rules),
                '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
                'orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>',
                f'<rect class="page" {size} rx="10"/>',
                *(part.svg() for part in self.parts),
                "</svg>\n",
            ]
        )


def style(rules: Callable[[int], str]) -> str:
    """Return the element with the styles of both schemes.

    Args:
        rules: Returns those of light (0) and dark (1).
    """
    dark = f"  @media (prefers-color-scheme: dark) {{\n    {rules(1)}\n  }}"
    return f"<style>\n  {rules(0)}\n{dark}\n</style>"


def _rules(scheme: int) -> str:
    colours = (LIGHT, DARK)[scheme]
    rules = [f".page {{ fill: {colours['page']} }}"]
    for kind, edge in EDGES.items():
        rules.append(f".{kind} {{ fill: {colours[kind]}; stroke: {edge[scheme]}; stroke-width: 1.6 }}")
    rules += [f"text {{ fill: {colours['text']} }}", f".note {{ fill: {colours['note']}; font-size: {NOTE_SIZE}px }}"]
    rules += [f"path {{ fill: none; stroke: {colours['note']}; stroke-width: 1.6 }}"]
    return " ".join([*rules, f"marker path {{ fill: {colours['note']}; stroke: none }}"])
