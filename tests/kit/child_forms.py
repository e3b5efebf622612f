"""Reconcilers that create two Secrets for each ConfigMap, one for each form of writing that the guide has."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.client import Client
from kcr.informer import Informer, InformerHandle, Store

OWNER_PREFIX = "owner-"
WANTED = 2


class Place(NamedTuple):
    """Where a key is reconciled: the cluster of the program, or a member."""

    client: Client
    owners: Store[ConfigMap]
    children: Store[Secret]
    open_informer: Callable[[], Informer[Secret] | InformerHandle[Secret]]


class ChildForm:
    """Creates the children by `generateName`; written as in the guide."""

    own_writes: kcr.OwnWrites | bool = True

    def __init__(self, place: Callable[[Key], Place], recorder: kcr.EventRecorder, random: Random) -> None:
        self._place, self._recorder, self._random = place, recorder, random

    async def reconcile(self, key: Key) -> kcr.Result:
        place = self._place(key)
        owner = place.owners.get(key)
        if owner is None or not key.name.startswith(OWNER_PREFIX):
            if isinstance(self.own_writes, kcr.OwnWrites):
                self.own_writes.forget(key)
            return kcr.Result()
        return await self._bring(place, key, owner)

    async def _bring(self, place: Place, key: Key, owner: ConfigMap) -> kcr.Result:
        for _ in range(self._missing(place, owner)):
            await self._create(place, key, owner)
        return kcr.Result()

    def _missing(self, place: Place, owner: ConfigMap) -> int:
        """Return how many children the store lacks."""
        references = (child.metadata.owner_references for child in place.children.list())
        return WANTED - sum(any(one.uid == owner.metadata.uid for one in owners) for owners in references)

    async def _create(self, place: Place, key: Key, owner: ConfigMap) -> None:
        metadata = ObjectMeta(generate_name=f"{owner.metadata.name}-", namespace=owner.metadata.namespace)
        await place.client.create(kcr.set_controller(Secret(metadata=metadata), owner))


class ManifestForm(ChildForm):
    """The same, from plain mappings."""

    async def _create(self, place: Place, key: Key, owner: ConfigMap) -> None:
        reference = {
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner.metadata.name, "uid": owner.metadata.uid,
            "controller": True,
        }  # fmt: skip
        metadata = {"generateName": f"{owner.metadata.name}-", "ownerReferences": [reference]}
        await place.client.create_manifest(Secret, {"metadata": metadata}, owner.metadata.namespace)


class ByHandForm(ChildForm):
    """The same, with names that it draws, and an `OwnWrites` in which it records each create before it is sent."""

    def __init__(self, place: Callable[[Key], Place], recorder: kcr.EventRecorder, random: Random) -> None:
        super().__init__(place, recorder, random)
        self.own_writes: kcr.OwnWrites = kcr.OwnWrites()

    async def _bring(self, place: Place, key: Key, owner: ConfigMap) -> kcr.Result:
        creates = self.own_writes.of(owner).creates
        for pending in tuple(creates.values()):
            # Under its name: it may still arrive.
            if not await self._find(place, key, owner, pending.key):
                await self._send(place, key, owner, pending)
        if self.own_writes.is_stale(key):
            return kcr.Result(requeue_after=0.1)
        return await super()._bring(place, key, owner)

    async def _create(self, place: Place, key: Key, owner: ConfigMap) -> None:
        name = f"{owner.metadata.name}-{self._random.getrandbits(32):08x}"
        metadata = ObjectMeta(name=name, namespace=owner.metadata.namespace)
        await self._send(place, key, owner, kcr.set_controller(Secret(metadata=metadata), owner))

    async def _send(self, place: Place, key: Key, owner: ConfigMap, child: Resource) -> None:
        self.own_writes.of(owner).creates[child.key] = child
        try:
            self._created(place, key, owner, await place.client.create(child))
        except kcr.AlreadyExistsError:
            await self._find(place, key, owner, child.key)

    async def _find(self, place: Place, key: Key, owner: ConfigMap, child: Key) -> bool:
        try:
            self._created(place, key, owner, await place.client.get(Secret, child))
        except kcr.NotFoundError:
            return False
        return True

    def _created(self, place: Place, key: Key, owner: ConfigMap, child: Resource) -> None:
        self.own_writes.wrote(key, place.children, child)
        self.own_writes.of(owner).creates.pop(child.key, None)


class ControlForm(ChildForm):
    """The same, with a `DependentControl`, which draws the names."""

    def __init__(self, place: Callable[[Key], Place], recorder: kcr.EventRecorder, random: Random) -> None:
        super().__init__(place, recorder, random)
        self.own_writes: kcr.OwnWrites = kcr.OwnWrites()

    async def _bring(self, place: Place, key: Key, owner: ConfigMap) -> kcr.Result:
        control = kcr.DependentControl(
            place.client, self._recorder, Secret,
            store=place.children, own_writes=self.own_writes, random=self._random,
        )  # fmt: skip
        created = await control.create(
            owner, Secret(metadata=ObjectMeta(labels={"of": key.name})), self._missing(place, owner)
        )
        if created.error is not None:
            raise created.error
        return kcr.Result()


class FixedNamesForm(ChildForm):
    """Children with names that follow from the owner, by `Children`."""

    def __init__(self, place: Callable[[Key], Place], recorder: kcr.EventRecorder, random: Random) -> None:
        super().__init__(place, recorder, random)
        self.own_writes: kcr.OwnWrites = kcr.OwnWrites()

    async def _bring(self, place: Place, key: Key, owner: ConfigMap) -> kcr.Result:
        children = kcr.Children(place.client, self._recorder, [place.open_informer()], own_writes=self.own_writes)
        names = (f"{key.name}-{number}" for number in range(WANTED))
        await children.ensure(
            owner, [Secret(metadata=ObjectMeta(name=name, namespace=key.namespace)) for name in names]
        )
        return kcr.Result()


FORMS = (ChildForm, ManifestForm, ByHandForm, ControlForm, FixedNamesForm)


def add_form(manager: kcr.Manager, form: type[ChildForm], workers: int) -> ChildForm:
    """Add the controller of a form, for the cluster of the program."""
    place = Place(manager.client, manager.store(ConfigMap), manager.store(Secret), lambda: manager.informer(Secret))
    made = form(lambda _: place, manager.recorder("children"), manager.random)
    watches = [kcr.watch(ConfigMap), kcr.owned(Secret, by=ConfigMap)]
    manager.add_controller("children", made, watches=watches, workers=workers, own_writes=made.own_writes)
    return made


def add_member_form(manager: kcr.Manager, clusters: kcr.Clusters, form: type[ChildForm], workers: int) -> ChildForm:
    """Add the controller of a form, for member clusters."""

    def place(key: Key) -> Place:
        member = clusters[key.cluster]
        return Place(
            member.client, member.store(ConfigMap), member.store(Secret), partial(member.open_informer, Secret)
        )

    made = form(place, manager.recorder("children"), manager.random)
    controller = manager.add_controller("children", made, workers=workers, own_writes=made.own_writes)
    clusters.watch(controller, kcr.watch(ConfigMap))
    clusters.watch(controller, kcr.owned(Secret, by=ConfigMap))
    return made
