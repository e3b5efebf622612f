"""Names for objects with `metadata.generateName`, drawn by the client, so that a create can be repeated.

The API server draws a name for each create that it receives. When a create has no answer, a second one makes a second
object, and the first may still arrive: seconds later, behind a proxy. A create under a name that the client has drawn
is idempotent: it is repeated under the same name until it is answered, and the API server has at most one object of it.
"""

from random import Random
from typing import NamedTuple

from kcr.api.meta import MAX_PREFIX, Key, Resource
from kcr.client.context import GeneratedName

# As the server draws them: no vowels and nothing that resembles another letter, so that no words appear.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LENGTH = 5


def generated_name(prefix: str, random: Random) -> str:
    """Return a name as the API server generates it.

    Args:
        prefix: `metadata.generateName`.
        random: Draws the letters.

    Source: apiserver/pkg/storage/names/generate.go, GenerateName.
    """
    return prefix[:MAX_PREFIX] + "".join(random.choice(_LETTERS) for _ in range(_LENGTH))


class NamelessCreate(NamedTuple):
    """The object of a create without a name; creates with the same value may replace each other.

    Attributes:
        kind: Its type.
        namespace: Its namespace, empty for kinds without namespaces.
        cluster: The member cluster, empty for the cluster of the program.
        prefix: Its `metadata.generateName`.
        controller_uid: The uid of its controller, empty without one.
    """

    kind: type[Resource]
    namespace: str
    cluster: str
    prefix: str
    controller_uid: str


class UnansweredCreates:
    """The creates of one key's reconciles under generated names, from before they are sent until they are answered."""

    __slots__ = ("_open", "_sending")

    def __init__(self) -> None:
        self._open: dict[tuple[type[Resource], Key], NamelessCreate] = {}
        # Those under way just now: another create of the same reconcile needs a name of its own.
        self._sending: set[tuple[type[Resource], Key]] = set()

    def __bool__(self) -> bool:
        return bool(self._open)

    def name_for(self, wanted: NamelessCreate, random: Random) -> GeneratedName:
        """Return the name of a create that had no answer, or a new one, for a create that is sent now."""
        for created, known in self._open.items():
            if known == wanted and created not in self._sending:
                self._sending.add(created)
                return GeneratedName(created[1].name, may_exist=True)
        name = generated_name(wanted.prefix, random)
        created = wanted.kind, Key(wanted.namespace, name).in_cluster(wanted.cluster)
        self._open[created] = wanted
        self._sending.add(created)
        return GeneratedName(name, may_exist=False)

    def cluster_of(self, kind: type[Resource], key: Key) -> str | None:
        """Return the cluster of a create; None for an unknown one."""
        return next((sent.cluster for known, sent in self._open if known is kind and sent.local == key), None)

    def unanswered(self, kind: type[Resource], key: Key) -> None:
        """Keep the name of a create that had no answer, for the next create."""
        self._sending.discard((kind, key))

    def answered(self, kind: type[Resource], key: Key) -> None:
        """Forget a name: the object exists, or the server has refused it."""
        self._sending.discard((kind, key))
        self._open.pop((kind, key), None)
