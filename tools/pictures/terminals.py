"""Pictures of terminals as SVG: what commands print about a cluster whose time is virtual, so each time the same."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from random import Random
from typing import Any

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.core import Namespace
from kcr.api.meta import Key, ObjectMeta
from kcr.api.unstructured import unstructured
from kcr.app.plugins import find_explainers
from kcr.cli.objects import explain
from kcr.cli.objects.look import look
from kcr.cli.target import ObjectName
from kcr.client import Client
from kcr.controllers.job.commands import jobs
from kcr.testing import VirtualClock, simulated_cluster
from kcr_devcluster.testing.loop import VirtualLoop
from tools.pictures.drawing import DARK, LIGHT, style

# Foreground colours by the numbers of terminals; all are readable on the pages of both schemes.
COLOURS = {31: ("#b42318", "#ff8a75"), 32: ("#1a7f37", "#56d364"), 33: ("#8a5a00", "#e3b341")}
_SIZE, _LINE, _LETTER, _EDGE = 13, 18, 7.9, 16
_STYLED = re.compile(r"\x1b\[(\d+)m(.*?)\x1b\[0m")
_PARTS = re.compile(r" {2,}| *\x1b\[\d+m.*?\x1b\[0m|(?:(?! {2}|\x1b).)+|\x1b\[\d*m")
_PLAIN = re.compile(r"\x1b\[\d*m")


def terminal(title: str, command: str, lines: Sequence[str]) -> str:
    """Return a terminal with a command and the lines that it prints, as an SVG file.

    Args:
        title: What it shows, in a sentence.
        command: The command.
        lines: With the escape sequences of colours.
    """
    shown = [f"$ {command}", *lines]
    columns = max(len(_PLAIN.sub("", line)) for line in shown)
    width, height = round(columns * _LETTER) + 2 * _EDGE, len(shown) * _LINE + 2 * _EDGE
    rows = [
        f'<text y="{_EDGE + 13 + _LINE * number}"{"" if number else _BOLD}>{_spans(line)}</text>'
        for number, line in enumerate(shown)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="ui-monospace, monospace" font-size="{_SIZE}" xml:space="preserve">',
            f"<title>{escape(title)}</title>",
            style(_rules),
            f'<rect width="{width}" height="{height}" rx="10"/>',
            *rows,
            "</svg>\n",
        ]
    )


_BOLD = ' font-weight="600"'


def _spans(line: str) -> str:
    """Return the words of a line, each column of a table at its place, whatever the font is."""
    spans, place = list[str](), 0
    for part in _PARTS.findall(line):
        found, text = _STYLED.fullmatch(part), _PLAIN.sub("", part)
        if text.strip():
            colour = f' class="c{found[1]}"' if found else ""
            spans.append(f'<tspan x="{_EDGE + place * _LETTER:.1f}"{colour}>{escape(text, quote=False)}</tspan>')
        place += len(text)
    return "".join(spans)


def _rules(scheme: int) -> str:
    colours = (LIGHT, DARK)[scheme]
    rules = [f"rect {{ fill: {colours['plain']} }} text {{ fill: {colours['text']}; white-space: pre }}"]
    rules += [f".c{number} {{ fill: {shades[scheme]} }}" for number, shades in COLOURS.items()]
    return " ".join(rules)


# Of each Job: its namespace, spec, and the annotations and further fields of its pods.
_SIXTEEN = {"completions": 16, "parallelism": 4}
_JOBS: Mapping[str, tuple[str, Mapping[str, Any], Mapping[str, str], Mapping[str, Any]]] = {
    "frames": ("render", _SIXTEEN, {"sim.kcr.dev/run-for": "25s"}, {}),
    "poster": ("render", {"completions": 2, "parallelism": 2}, {}, {}),
    "train": ("default", {}, {}, {"nodeSelector": {"accelerator": "gpu"}}),
    "import": ("default", {}, {"sim.kcr.dev/exit-code": "1", "sim.kcr.dev/run-for": "2s"}, {}),
    "backup": ("default", {}, {"sim.kcr.dev/run-for": "8s"}, {}),
    "cleanup": ("default", {"suspend": True}, {}, {}),
}

_QUOTA = {
    "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "render", "name": "small"},
    "spec": {"hard": {"pods": "4"}},
}  # fmt: skip


def _job(name: str) -> Job:
    namespace, spec, annotations, pod = _JOBS[name]
    containers = [{"name": "main", "image": f"registry.example/{name}:1"}]
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": containers, **pod},
    }
    manifest = {"metadata": {"namespace": namespace, "name": name}, "spec": {**spec, "template": template}}
    return codec.decode(Job, codec.encode(manifest))


async def _print(client: Client, now: datetime) -> tuple[list[str], list[str]]:
    found = await client.list(Job)
    rows = jobs.rows_of(found, await jobs.read_evidence(client, "", found), now)
    name, key = ObjectName(Job, "poster"), Key("render", "poster")
    shown = await look(client, name, key, now, find_explainers((), print))
    return [jobs.summary_of(rows), *jobs.lines_of(rows, now)], list(explain.lines_of(name, key, shown, now))


async def _terminals() -> dict[str, str]:
    clock = VirtualClock()
    async with simulated_cluster(clock=clock, random=Random(0), controllers=["job"]) as cluster:
        await cluster.client.create(Namespace(metadata=ObjectMeta(name="render")))
        await cluster.client.create(unstructured("v1", "ResourceQuota", plural="resourcequotas").of(_QUOTA))
        await clock.advance(1)
        for name in _JOBS:
            await cluster.client.create(_job(name))
            await clock.advance(1)
        await clock.advance(90)
        listed, explained = await _print(cluster.client, clock.now())
    title = "kcr jobs lists Jobs with their state and cause, those that need attention first"
    explanation = "kcr explain says what a Job waits for, why, and what helps"
    return {
        "jobs": terminal(title, "kcr jobs -A --watch", listed),
        "explain": terminal(explanation, "kcr explain -n render job/poster", explained),
    }


def terminals() -> dict[str, str]:
    """Return the pictures by their names."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_terminals())
