"""Pods by few words, and handlers that write down what they hear."""

from collections import deque
from collections.abc import Iterator
from typing import Any

from kcr.api.core import Pod
from kcr.informer.handlers import Handler
from kcr.testing import build

__all__ = ["Pod", "Told", "pod", "replaced"]


def pod(name: str, version: int = 1, **metadata: Any) -> Pod:
    return Pod(metadata=build.metadata(name, namespace="d", resource_version=str(version), **metadata))


def replaced(steps: Iterator[None]) -> None:
    """Let a list be taken and told, without a turn for others."""
    deque(steps, maxlen=0)


class Told(Handler[Pod]):
    """Writes down what it hears, and what the world is that it has heard of."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.world: dict[str, Pod] = {}

    def on_add(self, obj: Pod, initial: bool) -> None:
        assert obj.metadata.name not in self.world
        self._note("add", obj, " initial" if initial else "")
        self.world[obj.metadata.name] = obj

    def on_update(self, old: Pod, new: Pod) -> None:
        assert self.world.get(new.metadata.name, old) == old
        assert old.metadata.uid == new.metadata.uid
        self.heard.append(f"update {new.metadata.name} {old.metadata.resource_version}-{new.metadata.resource_version}")
        self.world[new.metadata.name] = new

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        self._note("vanish" if final_state_unknown else "delete", obj)
        self.world.pop(obj.metadata.name, None)

    def _note(self, what: str, obj: Pod, more: str = "") -> None:
        self.heard.append(f"{what} {obj.metadata.name} {obj.metadata.resource_version}{more}")
