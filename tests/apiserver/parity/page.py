"""docs/reference/parity.md: what is recorded, as a page; made offline."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec
import msgspec.yaml

from tests.apiserver.parity import corpus
from tests.apiserver.parity.answers import shortened

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "parity.md"
RECORDED = Path(__file__).with_name("recorded.yaml")
AREAS = {
    "cel-types": "what the types of expressions are, and which definitions are refused for them",
    "cel-values": "presence, sets and maps, times, transitions, arithmetic, optionals, macros",
    "cel-functions": "the libraries of functions, one by one",
    "cel-messages": "messages, reasons and paths of rules, and rules beside the rest of a schema",
    "cel-costs": "the smallest `maxItems`, `maxLength` or `maxProperties` with which a definition is refused",
    "cel-admission": "expressions of policies and webhooks: which are refused, verdicts and mutations",
    "cel-type-checking": "warnings of ill-typed expressions in the status of policies",
    "bodies-yaml": "bodies in YAML, and answers in YAML",
    "bodies-json": "bodies in JSON, content types, answers in JSON",
    "patches": "JSON, merge and strategic merge patches",
    "apply": "server-side apply",
    "quantities": "amounts, where they are written and where they must be integers",
    "urls": "paths, options, methods, and names in bodies that differ from the URL",
    "storage": "what is stored and defaulted, in one version and in several",
    "validation": "built-in kinds: what is refused, with which words, and what is defaulted",
}
TEXT = """Made from `tests/apiserver/parity` by `make parity`.

{rows:,} expressions and requests, asked kube-apiserver {server} (built with {go}) on {date}; its answers are recorded
beside them. `make test` asks the embedded server all of them: rows that differ are listed below, and a row that agrees
again must leave the list. With `KUBEBUILDER_ASSETS`, `make parity` asks a real server as well and reports each answer
that is no longer the recorded one; `KUBERNETES_SOURCE`, a checkout of Kubernetes, adds upstream's own table of rules:
{upstream_alike} of its {upstream_rows} rules agree.

A definition that is refused counts as its causes: fields, reasons and messages, with the position in the expression."""


class Recorded(msgspec.Struct):
    """When and of what the answers are.

    Attributes:
        server: The version of kube-apiserver.
        go: The version of Go that it was built with.
        date: The day.
        upstream_rows: How many rules upstream's own table has.
        upstream_alike: How many of them agree.
    """

    server: str
    go: str
    date: str
    upstream_rows: int
    upstream_alike: int


def recorded() -> Recorded:
    """Return when and of what the answers are."""
    return msgspec.yaml.decode(RECORDED.read_bytes(), type=Recorded)


def write_recorded(found: Recorded) -> None:
    """Keep when and of what the answers are."""
    RECORDED.write_bytes(msgspec.yaml.encode(found))


def page(rows: Mapping[str, corpus.Entry]) -> str:
    """Return the text of the page of all rows."""
    known = corpus.known()
    total = Counter(entry.area for entry in rows.values())
    differ = Counter(rows[key].area for key in known)
    lines = ["# Parity", "", TEXT.format(rows=len(rows), **msgspec.structs.asdict(recorded())), ""]
    lines += ["| area | about | rows | alike | share |", "|---|---|---|---|---|"]
    total["all"], differ["all"] = len(rows), len(known)
    for area, about in (*AREAS.items(), ("all", "")):
        count, alike = total[area], total[area] - differ[area]
        lines.append(f"| {area} | {about} | {count:,} | {alike:,} | {alike / count:.1%} |")
    lines += ["", "## Known differences", "", "| rows | reason |", "|---|---|"]
    for reason, count in Counter(known.values()).most_common():
        lines.append(f"| {count} | {reason} |")
    for area in AREAS:
        keys = [key for key in known if rows[key].area == area]
        if keys:
            lines += ["", f"### {area}", "", *(f"- {_code(key.removeprefix(f'{area}/'))}" for key in keys)]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """Return a text as code in one line, with marks that do not occur in it."""
    text = shortened(text)
    marks = "``" if "`" in text else "`"
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{space}{text}{space}{marks}"
