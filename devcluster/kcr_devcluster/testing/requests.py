"""The requests of a manager in a test, by key and reconcile."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal, NamedTuple
from urllib.parse import unquote

from structlog.contextvars import get_contextvars

from kcr.api.explanation import counted
from kcr.api.meta import Key, Resource
from kcr.arguments import checked
from kcr.client import Request
from kcr.client.context import writing
from kcr.manager import Manager
from kcr.testing.fakes import FakeManager
from kcr_devcluster.apiserver.authorization import Attributes, request_attributes
from kcr_devcluster.apiserver.protocol.query import Query

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
# How many lines of a table are shown.
SHOWN = 60
# The reconcile that a test of a `FakeManager` calls.
_OF_THE_TEST = "test"
_COLUMNS: tuple[str, ...] = ("controller", "key", "reconcile", "verb", "resource", "count", "sent", "received")


class SentRequest(NamedTuple):
    """One request of a manager; each retry is one.

    Attributes:
        attributes: Verb, resource, namespace and name, as roles have them.
        controller: The controller, else the component that sent it; empty for the manager itself.
        key: The key that was reconciled; None outside of reconciles.
        reconcile: The id of the reconcile, `reconcile_id` of log lines; empty outside of reconciles.
        status: The code of the answer, 0 for none.
        sent: The size of the body in bytes.
        received: The size of the answer; 0 for a watch.
    """

    attributes: Attributes
    controller: str
    key: Key | None
    reconcile: str
    status: int
    sent: int
    received: int = 0

    @property
    def resource(self) -> str:
        """The resource as `jobs.batch/status`; the path where there is none."""
        wanted = self.attributes
        display = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
        return wanted.path or (f"{display}/{wanted.subresource}" if wanted.subresource else display)


class SeenRequests:
    """The requests of a manager that `requests` has seen; `print(seen)` shows them as a table.

    Attributes:
        all: The requests, in the order of their answers.
    """

    def __init__(self, manager: Manager) -> None:
        self.all: list[SentRequest] = []
        self._fallback = _OF_THE_TEST if isinstance(manager, FakeManager) else ""
        # Where those are that may still be read.
        self._places: dict[int, int] = {}

    def answered(self, request: Request, code: int, seconds: float) -> None:
        """Note a request; see `RequestObserver`."""
        self._places[id(request)] = len(self.all)
        self.all.append(sent_request(request, code, self._fallback))

    def received(self, request: Request, size: int) -> None:
        """Note the size of an answer."""
        if (place := self._places.pop(id(request), None)) is not None:
            self.all[place] = self.all[place]._replace(received=size)

    @checked
    def count(
        self,
        verb: Verb | Literal[""] = "",
        kind: type[Resource] | None = None,
        *,
        subresource: str | None = None,
        key: Key | None = None,
    ) -> int:
        """Return how many requests there were.

        Args:
            verb: The verb; empty for all.
            kind: The kind; None for all.
            subresource: Such as `status`; empty for the objects themselves, None for both.
            key: The key that was reconciled; None for all, and for requests outside of reconciles.
        """
        return len(self._chosen(verb, kind, subresource, key))

    @checked
    def bytes(
        self,
        verb: Verb | Literal[""] = "",
        kind: type[Resource] | None = None,
        *,
        subresource: str | None = None,
        key: Key | None = None,
    ) -> int:
        """Return the size of the bodies, sent and received; the arguments are those of `count`."""
        return sum(one.sent + one.received for one in self._chosen(verb, kind, subresource, key))

    @checked
    def per_reconcile(
        self, verb: Verb | Literal[""] = "", kind: type[Resource] | None = None, *, subresource: str | None = None
    ) -> int:
        """Return the most requests that one reconcile has sent.

        Args:
            verb: The verb; empty for all.
            kind: The kind; None for all.
            subresource: Such as `status`; empty for the objects themselves, None for both.
        """
        chosen = self._chosen(verb, kind, subresource, None)
        return max(Counter(one.reconcile for one in chosen if one.reconcile).values(), default=0)

    def _chosen(
        self, verb: str, kind: type[Resource] | None, subresource: str | None, key: Key | None
    ) -> list[SentRequest]:
        resource = None if kind is None else (kind.resource.group, kind.resource.plural)
        return [
            one
            for one in self.all
            if verb in ("", one.attributes.verb)
            and resource in (None, (one.attributes.group, one.attributes.resource))
            and subresource in (None, one.attributes.subresource)
            and key in (None, one.key)
        ]

    def __str__(self) -> str:
        """Return a table of what was sent, by controller, key and reconcile."""
        rows = [_COLUMNS]
        for (controller, key, reconcile), group in self._by_reconcile().items():
            head = (controller or "-", str(key or "-"), reconcile[:8] or "-")
            for (verb, resource), found in group.items():
                sizes = (sum(one.sent for one in found), sum(one.received for one in found))
                rows.append((*head, verb, resource, *map(str, (len(found), *sizes))))
                head = ("", "", "")
        left_out = len(rows) - SHOWN - 1
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows[: SHOWN + 1]]
        return "\n".join([*lines, f"… {counted(left_out, 'more line')}"] if left_out > 0 else lines)

    def _by_reconcile(
        self,
    ) -> dict[tuple[str, Key | None, str], dict[tuple[str, str], list[SentRequest]]]:
        groups: dict[tuple[str, Key | None, str], dict[tuple[str, str], list[SentRequest]]] = {}
        for one in self.all:
            group = groups.setdefault((one.controller, one.key, one.reconcile), {})
            group.setdefault((one.attributes.verb, one.resource), []).append(one)
        return groups


def sent_request(request: Request, code: int, reconcile: str = "") -> SentRequest:
    """Return a request that the running task has sent.

    Args:
        request: The request.
        code: The code of the answer, 0 for none.
        reconcile: The id of the reconcile where no worker has one.
    """
    bound = get_contextvars()
    reconcile = str(bound.get("reconcile_id", reconcile))
    key = Key(str(bound["namespace"]), str(bound["name"])) if "reconcile_id" in bound else None
    controller = str(bound.get("controller", request.component))
    return SentRequest(attributes_of(request), controller, key, reconcile, code, len(request.body))


def attributes_of(request: Request) -> Attributes:
    """Return what roles say of a request: verb, resource, namespace and name."""
    path, _, query = request.target.partition("?")
    return request_attributes(request.method, unquote(path), Query(query))


@checked
@contextmanager
def requests(manager: Manager) -> Iterator[SeenRequests]:
    """See the requests that a manager sends while the context lives.

    ```python
    with kcr.testing.requests(manager) as seen:
        await client.create(website)
        await eventually(is_ready)
    assert seen.per_reconcile("patch", Website) <= 1
    ```

    These are the requests of its tasks: of reconciles, informers, recorders, webhooks and leader election; the test may
    use the same client. With a `FakeManager` they are those of the test, as one reconcile.

    Args:
        manager: A manager that runs, or will.
    """
    seen = SeenRequests(manager)
    manager.request_observers.append(seen)
    try:
        with writing(manager=manager) if isinstance(manager, FakeManager) else nullcontext():
            yield seen
    finally:
        manager.request_observers.remove(seen)
