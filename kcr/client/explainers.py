"""Explanations from outside: a plugin's explanations of objects without access to their controller.

`Reconciler.explain` answers at the debug port of a running controller, with its memory. An explainer answers for
`kcr explain` and the page of `kcr dev` from the API server alone, also when no controller runs. The context of pods
that do not run, warnings about them and their nodes, is read here for all of them.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from kcr.api.core import Event, Node, Pod
from kcr.api.explanation import Explanation
from kcr.api.meta import Key, Resource
from kcr.api.pod_failures import failed_container
from kcr.api.pod_problems import PodContext
from kcr.api.pods import is_ready, is_terminal
from kcr.arguments import checked
from kcr.client.client import Client
from kcr.client.subresources import LogOptions
from kcr.errors import ApiError, ForbiddenError, KcrError, NotFoundError

R = TypeVar("R", bound=Resource)
S = TypeVar("S", bound=Callable[..., object])

Explain = Callable[[Client, R, Sequence[Event], datetime], Awaitable[Explanation]]

# The attribute of a setup function that has its explainers.
_ATTRIBUTE = "kcr_explainers"
# So many pods and nodes are read: the others most likely have the same obstacle.
_ASKED = 3


class ExplainerError(KcrError):
    """An explainer is wrong; the object can be explained without it."""


class Explainer(NamedTuple):
    """A function that explains the objects of a kind.

    Attributes:
        kind: The type that objects are decoded to.
        explain: Called with a client, an object, the events about it, the latest last, and the time.
    """

    kind: type[Resource]
    explain: Explain[Any]

    async def __call__(self, client: Client, obj: Resource, events: Sequence[Event], now: datetime) -> Explanation:
        """Explain an object.

        Raises:
            ExplainerError: The function fails by a bug, or returns something else.
            KcrError: A request of the function fails.
        """
        try:
            found: object = await self.explain(client, obj, events, now)
        except KcrError:
            raise
        except Exception as error:
            raise ExplainerError(f"{self} fails: {type(error).__name__}: {error}") from error
        if not isinstance(found, Explanation):
            raise ExplainerError(f"{self} returned {found!r:.100}, not a kcr.Explanation")
        return found

    def __str__(self) -> str:
        """Return the function's name, with that of its module."""
        return f"{self.explain.__module__}.{self.explain.__qualname__}"


@checked
def explains(kind: type[R], explain: Explain[R]) -> Callable[[S], S]:
    """Return a decorator for a plugin's `setup` that adds an explainer for `kcr explain`.

    ```python
    async def explain_website(
        client: kcr.Client, website: Website, events: Sequence[Event], now: datetime
    ) -> kcr.Explanation:
        return kcr.Explanation(kcr.Code.WAITING, "waits for its certificate")


    @kcr.explains(Website, explain_website)
    def setup(manager: kcr.Manager) -> None: ...
    ```

    The explainer sends read requests only, with the rights of the user. It takes the place of the explanation by
    metadata and conditions that all kinds have; the reconciler's own, at the debug port, is merged with it.

    Args:
        kind: The kind of the objects.
        explain: Explains one of them.
    """

    @checked
    def decorate(setup: S) -> S:
        setattr(setup, _ATTRIBUTE, (*explainers_of(setup), Explainer(kind, explain)))
        return setup

    return decorate


def explainers_of(setup: Callable[..., object]) -> tuple[Explainer, ...]:
    """Return the explainers of a setup function; none where it has no decorator `explains`."""
    found: tuple[Explainer, ...] = getattr(setup, _ATTRIBUTE, ())
    return found


async def read_pod_context(client: Client, pods: Iterable[Pod], change: str) -> PodContext:
    """Read warnings about pods that do not run, the nodes they are bound to, and the nodes that take no new pods.

    Unreadable parts are omitted.

    Args:
        client: Where to read.
        pods: The pods; a few of those that are not ready are read.
        change: How a user gets other pods; see `PodContext`.
    """
    waiting = [pod for pod in pods if not is_terminal(pod) and not is_ready(pod)]
    unscheduled = any(not pod.spec.node_name for pod in waiting)
    names = dict.fromkeys(pod.spec.node_name for pod in pods if not is_terminal(pod) and pod.spec.node_name)
    nodes: dict[str, Node | None] = {}
    with suppress(ForbiddenError):
        for name in tuple(names)[:_ASKED]:
            nodes[name] = await _node(client, name)
    if unscheduled:
        with suppress(ForbiddenError):
            cordoned = await client.list(Node, fields="spec.unschedulable=true")
            nodes |= {node.metadata.name: node for node in cordoned}
    return PodContext(await _warnings(client, waiting), nodes, change)


async def _node(client: Client, name: str) -> Node | None:
    try:
        return await client.get(Node, Key("", name))
    except NotFoundError:
        return None


async def _warnings(client: Client, pods: Sequence[Pod]) -> tuple[Event, ...]:
    """Return the warnings about some pods, in the order in which they were last seen."""
    found: list[Event] = []
    for pod in [pod for pod in pods if pod.spec.node_name][:_ASKED]:
        fields = f"involvedObject.kind=Pod,involvedObject.name={pod.metadata.name},type=Warning"
        try:
            found += await client.list(Event, pod.metadata.namespace, fields=fields)
        except ForbiddenError:
            break
    return tuple(sorted(found, key=last_seen))


async def read_last_lines(client: Client, pod: Pod, count: int) -> tuple[str, ...]:
    """Return the last lines that a failed pod's failed container has written; empty when its log cannot be read.

    Args:
        client: Where to read.
        pod: The pod.
        count: How many lines, at most.
    """
    container = failed_container(pod)
    if container is None:
        return ()
    try:
        text = await client.log(pod.key, LogOptions(container.name, tail_lines=count))
    except ApiError:
        return ()
    return tuple(text.splitlines()[-count:])


def last_seen(event: Event) -> datetime:
    """Return when an event was last seen; 1970 for one without any time, to sort by."""
    return event.last_seen or datetime.fromtimestamp(0, UTC)
