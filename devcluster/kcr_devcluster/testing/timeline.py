"""The story of a test: every write that the embedded server was asked for, in virtual time.

The report of a failed test in virtual time has it, so that a wrong end can be traced to earlier writes:

```
      0.0  test               create  websites.example.dev default/shop
      0.0  website            create  deployments.apps default/shop
      0.0  website            patch   websites.example.dev default/shop/status  ready=0  Ready=False (NoPods)
      0.1  website            event   Normal Created: Website default/shop: deployment shop
     10.0  website            create  deployments.apps default/shop  409 AlreadyExists
```
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

from kcr_devcluster.observers import observing

if TYPE_CHECKING:  # pytest imports the plugin in every project
    from kcr_devcluster.apiserver.protocol.responses import APIResponse
    from kcr_devcluster.apiserver.server import HTTPRequest

# How many writes are kept, and how many of them are shown.
KEPT, SHOWN = 500, 60
# How much of a patch is shown.
_DETAIL_CHARACTERS = 140
# These writes repeat endlessly, and concern no object of the test.
_SILENT = frozenset({"leases", "nodes"})
_NAMESPACE = re.compile(r"/namespaces/([^/?]+)/")


class RecordedWrite(NamedTuple):
    """One write.

    Attributes:
        seconds: When, in seconds since the loop began.
        who: The controller or component that sent it, else `test`.
        request: The request.
        status: The code of the answer.
        answer: Its body.
    """

    seconds: float
    who: str
    request: "HTTPRequest"
    status: int
    answer: bytes


class Timeline:
    """The writes that the embedded servers of a test were asked for.

    Attributes:
        entries: The newest of them, in their order.
        count: How many there were.
    """

    def __init__(self) -> None:
        self.entries: deque[RecordedWrite] = deque(maxlen=KEPT)
        self.count: int = 0

    def recording(self) -> AbstractContextManager[None]:
        """Record the writes to the embedded servers that are made while the context lives."""
        return observing(self._note)

    def _note(self, request: "HTTPRequest", response: "APIResponse") -> None:
        if request.method == "GET":
            return
        body = response.body if isinstance(response.body, bytes) else b""
        self.entries.append(
            RecordedWrite(asyncio.get_running_loop().time(), _who(request), request, response.status, body)
        )
        self.count += 1

    def text(self) -> str:
        """Return the timeline, its newest lines only where there are many; empty when nothing was written."""
        lines = [line for entry in self.entries if (line := _line(entry))]
        if not lines:
            return ""
        shown = lines[-SHOWN:]
        left_out = len(lines) - len(shown) + self.count - len(self.entries)
        head = ["seconds of virtual time, who, and what was written:"]
        if left_out:
            head.append(f"({left_out} earlier writes are left out)")
        return "\n".join(head + shown)


def _who(request: "HTTPRequest") -> str:
    from structlog.contextvars import get_contextvars  # noqa: PLC0415  # loaded with the server by now

    bound = get_contextvars()
    manager = parse_qs(request.target.partition("?")[2]).get("fieldManager", [""])[0]
    return str(bound.get("controller") or bound.get("component") or ("test" if manager in ("", "kcr") else manager))


def _line(entry: RecordedWrite) -> str:
    from kcr_devcluster.calls import call_of  # noqa: PLC0415  # see above

    call = call_of(entry.request.method, entry.request.target)
    group, _, plural = call.resource
    if not plural or plural in _SILENT:
        return ""
    sent, answered = _decoded(entry.request.body), _decoded(entry.answer)
    refused = f"  {entry.status} {_of(answered, 'reason') or ''}".rstrip() if entry.status >= 300 else ""
    if plural == "events":
        return f"{entry.seconds:9.1f}  {_event(entry.who, sent)}{refused}" if call.verb == "create" else ""
    found = _NAMESPACE.search(entry.request.target)
    name = call.name or _of(answered, "metadata", "name") or _of(sent, "metadata", "name") or "?"
    place = "/".join(part for part in (found and found[1], name, call.subresource) if part)
    what = f"{plural}.{group}" if group else plural
    detail = _detail(sent) if call.verb in ("patch", "update") else ""
    return f"{entry.seconds:9.1f}  {entry.who:<18} {call.verb:<7} {what} {place}{detail}{refused}"


def _event(who: str, event: Any) -> str:
    about = _of(event, "involvedObject") or _of(event, "regarding")
    name = "/".join(filter(None, (_of(about, "namespace"), _of(about, "name"))))
    said = _of(event, "message") or _of(event, "note") or ""
    source = _of(event, "source", "component") or _of(event, "reportingComponent") or who
    return f"{source:<18} event   {_of(event, 'type')} {_of(event, 'reason')}: {_of(about, 'kind')} {name}: {said}"


def _detail(patch: Any) -> str:
    """Return a summary of a patch: fields, then conditions in short form, then nested fields."""
    if isinstance(patch, list):
        # A `test` guards the others and changes nothing.
        return _short(f"{step.get('op')} {step.get('path')}" for step in patch if step.get("op") != "test")
    if not isinstance(patch, dict):
        return ""
    metadata = {name: value for name, value in (patch.get("metadata") or {}).items() if name not in _PRECONDITIONS}
    rest = {name: value for name, value in patch.items() if name not in _NOT_SHOWN}
    status = dict(patch.get("status") or {})
    conditions = [_condition(one) for one in status.pop("conditions", None) or () if isinstance(one, Mapping)]
    fields = [*_fields("metadata.", metadata), *_fields("", rest), *_fields("", status)]
    # In three steps, because the end may be cut off.
    deep = [text for text in fields if text.endswith(_NESTED) or "." in text.partition("=")[0]]
    return _short([*(text for text in fields if text not in deep), *conditions, *deep])


_PRECONDITIONS = ("resourceVersion", "uid")
_NOT_SHOWN = ("apiVersion", "kind", "metadata", "status")
_NESTED = "[…]"


def _fields(prefix: str, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _fields(f"{prefix}{name}.", value)
        elif isinstance(value, list) and not all(isinstance(item, str) for item in value):
            yield f"{prefix}{name}={_NESTED}"
        else:
            text = ",".join(value) if isinstance(value, list) else value
            yield f"{prefix}{name}={'null' if text is None else text}"


def _condition(condition: Mapping[str, Any]) -> str:
    reason = condition.get("reason")
    return f"{condition.get('type')}={condition.get('status')}" + (f" ({reason})" if reason else "")


def _short(parts: Iterable[str]) -> str:
    text = "  ".join(parts)
    return "  " + (text if len(text) <= _DETAIL_CHARACTERS else f"{text[:_DETAIL_CHARACTERS]}…") if text else ""


def _decoded(body: bytes) -> Any:

    try:
        return json.loads(body)
    except ValueError:
        return None


def _of(value: Any, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
