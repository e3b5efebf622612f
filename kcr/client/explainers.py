"""Explanations from outside: a plugin's explanations of objects without access to their controller.

`Reconciler.explain` answers at the debug port of a running controller, with its memory. An explainer answers for
`kcr explain` and the page of `kcr dev` from the API server alone, also when no controller runs.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from kcr.api.core import Event
from kcr.api.explanation import Explanation
from kcr.api.meta import Resource
from kcr.arguments import checked
from kcr.client.client import Client
from kcr.errors import ForbiddenError, KcrError, NotFoundError, described

R = TypeVar("R", bound=Resource)
S = TypeVar("S", bound=Callable[..., object])

Explain = Callable[[Client, R, Sequence[Event], datetime], Awaitable[Explanation]]

# The attribute of a setup function that has its explainers.
_ATTRIBUTE = "kcr_explainers"


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
            raise ExplainerError(f"{self} fails: {described(error)}") from error
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


def last_seen(event: Event) -> datetime:
    """Return when an event was last seen; 1970 for one without any time, to sort by."""
    return event.last_seen or datetime.fromtimestamp(0, UTC)


async def list_or_nothing(
    client: Client, kind: type[R], namespace: str, *, labels: str = "", fields: str = ""
) -> tuple[R, ...]:
    """List objects, or none where they may not be read or are of a kind that is not served."""
    try:
        return tuple(await client.list(kind, namespace, labels=labels, fields=fields))
    except (ForbiddenError, NotFoundError):
        return ()
