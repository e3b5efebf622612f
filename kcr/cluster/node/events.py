"""What the node tells people about its pods: core v1 Events, best effort, one request each."""

import asyncio
from collections import OrderedDict, deque
from typing import NamedTuple

from kcr.api.core import Event, EventSource, ObjectReference, reference_to
from kcr.api.meta import Key, ObjectMeta, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.cluster.node.pods import Container, RunnablePod
from kcr.cluster.node.runtime import Exit
from kcr.errors import ApiError, NotFoundError, TransportError

MAX_WAITING = 1000
MAX_REMEMBERED = 1000


class _Said(NamedTuple):
    """What makes two events the same."""

    uid: str
    field_path: str
    type: str
    reason: str
    message: str
    component: str


class Events:
    """Posts events in the order in which they come. Those that repeat are counted on the first one.

    When more wait than can be posted the oldest are dropped: events tell, they do not control.
    """

    def __init__(self, client: Client, clock: Clock, node: str) -> None:
        self._client = client
        self._clock = clock
        self._node = node
        self._waiting: deque[tuple[_Said, Event]] = deque(maxlen=MAX_WAITING)
        self._posted: OrderedDict[_Said, Event] = OrderedDict()
        self._wake: asyncio.Future[None] | None = None
        self._serial = 0
        # The images that are on the machine, as far as people have been told.
        self._images: set[str] = set()

    def record(
        self, pod: RunnablePod, reason: str, message: str, *, type_: str = "Normal", container: str = ""
    ) -> None:
        """Tell something about a pod, or one of its containers. Never raises, never blocks."""
        inits = {init.name for init in pod.spec.init_containers or ()}
        field = "spec.initContainers" if container in inits else "spec.containers"
        component = "default-scheduler" if reason in {"Scheduled", "FailedScheduling"} else "kubelet"
        path = f"{field}{{{container}}}" if container else ""
        said = _Said(pod.metadata.uid, path, type_, reason, message, component)
        self._waiting.append((said, self._event(pod, said)))
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def record_start(self, pod: RunnablePod, container: Container, failure: Exit | None = None) -> None:
        """Tell how a container was started, from its image on.

        Args:
            pod: The pod.
            container: The container.
            failure: Its end, when it has ended already or could not be started.
        """
        image, policy = container.image or "", container.image_pull_policy
        if policy == "Always" or (policy != "Never" and image not in self._images):
            self.record(pod, "Pulling", f'Pulling image "{image}"', container=container.name)
            pulled = f'Successfully pulled image "{image}" in 0s (0s including waiting). Image size: 0 bytes.'
        else:
            pulled = f'Container image "{image}" already present on machine'
        self._images.add(image)
        self.record(pod, "Pulled", pulled, container=container.name)
        self.record(pod, "Created", f"Created container: {container.name}", container=container.name)
        if failure is not None and failure.reason == "StartError":
            self.record(pod, "Failed", f"Error: {failure.message}", type_="Warning", container=container.name)
        else:
            self.record(pod, "Started", f"Started container {container.name}", container=container.name)

    def record_back_off(self, pod: RunnablePod, container: str) -> None:
        """Tell that a container waits for its restart."""
        where = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
        message = f"Back-off restarting failed container {container} in pod {where}"
        self.record(pod, "BackOff", message, type_="Warning", container=container)

    def _event(self, pod: RunnablePod, said: _Said) -> Event:
        now = self._clock.now()
        # A name of its own also for those of one moment, and the same in every run of a simulation.
        self._serial += 1
        stamp = int(now.timestamp() * 1_000_000) * 1000 + self._serial % 1000
        about = reference_to(pod)
        return Event(
            metadata=ObjectMeta(name=f"{pod.metadata.name}.{stamp:x}", namespace=pod.metadata.namespace),
            involved_object=ObjectReference(
                kind=about.kind, namespace=about.namespace, name=about.name, uid=about.uid,
                api_version=about.api_version, resource_version=about.resource_version, field_path=said.field_path,
            ),
            reason=said.reason,
            message=said.message,
            type=said.type,
            source=EventSource(component=said.component, host="" if "scheduler" in said.component else self._node),
            first_timestamp=whole_seconds(now),
            last_timestamp=whole_seconds(now),
            count=1,
            reporting_component=said.component,
            reporting_instance="" if "scheduler" in said.component else self._node,
        )  # fmt: skip

    async def run(self) -> None:
        """Post events until cancelled."""
        while True:
            while self._waiting:
                said, event = self._waiting.popleft()
                try:
                    await self._post(said, event)
                except (ApiError, TransportError):
                    self._posted.pop(said, None)
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    async def _post(self, said: _Said, event: Event) -> None:
        before = self._posted.get(said)
        if before is not None:
            event = await self._count(before, event)
        else:
            event = await self._client.create(event)
        self._posted[said] = event
        self._posted.move_to_end(said)
        if len(self._posted) > MAX_REMEMBERED:
            self._posted.popitem(last=False)

    async def _count(self, before: Event, again: Event) -> Event:
        key = Key(before.metadata.namespace, before.metadata.name)
        patch = {"count": before.count + 1, "lastTimestamp": again.last_timestamp}
        try:
            return await self._client.merge_patch(Event, key, patch)
        except NotFoundError:
            return await self._client.create(again)
