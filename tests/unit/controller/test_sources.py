import sys

import pytest

from kcr.api.batch import Job
from kcr.api.core import ConfigMap, Namespace, Pod
from kcr.api.meta import Key, ObjectMeta, OwnerReference, Resource
from kcr.controller import keys_by_index, owned, watch
from kcr.controller.sources import EnqueueRequests
from kcr.errors import KcrError
from kcr.testing import FakeInformer, build

LABELLED = watch(Pod, map_to=lambda pod: (Key(pod.metadata.namespace, name) for name in pod.metadata.labels.values()))


def pod(*owners: OwnerReference, **labels: str) -> Pod:
    return build.pod("pod", owner_references=owners, labels=labels)


def owner(api_version: str, kind: str, *, controller: bool | None = True) -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name="owner", uid="1", controller=controller)


def test_watched_object_brings_its_own_key() -> None:
    assert list(watch(Pod).map_to(pod())) == [Key("default", "pod")]


@pytest.mark.parametrize(
    ("reference", "by", "keys"),
    [
        pytest.param(owner("batch/v1", "Job"), Job, [Key("default", "owner")], id="its-controller"),
        pytest.param(owner("batch/v1beta1", "Job"), Job, [Key("default", "owner")], id="another-version"),
        pytest.param(owner("example.dev/v1", "Job"), Job, [], id="another-group"),
        pytest.param(owner("batch/v1", "CronJob"), Job, [], id="another-kind"),
        pytest.param(owner("batch/v1", "Job", controller=None), Job, [], id="owner-that-does-not-control"),
        pytest.param(owner("v1", "Namespace"), Namespace, [Key("", "owner")], id="owner-without-namespace"),
        pytest.param(None, Job, [], id="no-owner"),
    ],
)
def test_owned_object_brings_its_controllers_key(
    reference: OwnerReference | None, by: type[Resource], keys: list[Key]
) -> None:  # CM-15
    assert list(owned(Pod, by=by).map_to(pod(*([reference] if reference else [])))) == keys


def test_every_owner_of_the_kind_counts_when_asked() -> None:  # CM-15
    owners = tuple(
        OwnerReference(api_version=version, kind="Job", name=name, uid=name, controller=controls)
        for version, name, controls in (("batch/v1", "a", True), ("batch/v1", "b", None), ("example.dev/v1", "c", None))
    )
    shared = Pod(metadata=ObjectMeta(namespace="default", name="pod", owner_references=owners))
    assert list(owned(Pod, by=Job).map_to(shared)) == [Key("default", "a")]
    assert list(owned(Pod, by=Job, only_controller_owner=False).map_to(shared)) == [
        Key("default", "a"),
        Key("default", "b"),
    ]


def test_update_brings_old_and_new_keys_once() -> None:  # CM-15
    added: list[Key] = []
    handler = EnqueueRequests("web", LABELLED, lambda key, *_: added.append(key))
    handler.on_update(pod(one="a", two="b"), pod(one="b", two="c"))
    assert [key.name for key in added] == ["a", "b", "c"]


def test_add_and_delete_bring_the_keys() -> None:  # CM-15
    added: list[Key] = []
    handler = EnqueueRequests("web", LABELLED, lambda key, *_: added.append(key))
    handler.on_add(pod(one="a"), False)
    handler.on_delete(pod(one="b"), False)
    assert [key.name for key in added] == ["a", "b"]


def test_failing_mapping_function_names_controller_kind_and_object() -> None:
    added: list[Key] = []
    by_app = watch(Pod, map_to=lambda pod: [Key("default", pod.metadata.labels["app"])])
    handler = EnqueueRequests("web", by_app, lambda key, *_: added.append(key))
    with pytest.raises(KcrError, match=r"^controller 'web': the mapping function failed for Pod default/pod: Key"):
        handler.on_add(pod(), True)
    with pytest.raises(KcrError, match="Pod default/pod"):
        handler.on_update(pod(), pod(app="a"))
    assert [key.name for key in added] == ["a"]


def test_mapping_function_that_exits_names_controller_kind_and_object() -> None:
    handler = EnqueueRequests("web", watch(Pod, map_to=lambda _: sys.exit("no label")), lambda *_: None)
    with pytest.raises(KcrError, match=r"the mapping function failed for Pod default/pod: SystemExit: no label$"):
        handler.on_add(pod(), True)


@pytest.mark.parametrize("error", [ValueError("no such label"), SystemExit("no such label")])
def test_failing_predicate_names_controller_kind_and_object(error: BaseException) -> None:
    def broken(old: object, new: object) -> bool:
        raise error

    handler = EnqueueRequests("web", watch(Pod, predicate=broken), lambda *_: None)
    line = f"controller 'web': the predicate failed for Pod default/pod: {type(error).__name__}: no such label"
    with pytest.raises(KcrError, match=line):
        handler.on_add(pod(), False)
    with pytest.raises(KcrError, match=line):
        handler.on_update(pod(), pod())
    with pytest.raises(KcrError, match=line):
        handler.on_delete(pod(), False)


@pytest.mark.kcr_virtual
async def test_referred_object_brings_the_keys_of_those_that_refer_to_it() -> None:
    copies = FakeInformer(ConfigMap)
    copies.store.add_index("source", lambda obj: [obj.metadata.annotations.get("from", "")])
    for name, source in (("a", "default/colors"), ("b", "default/colors"), ("c", "default/sizes")):
        copies.add(build.config_map(name, annotations={"from": source}))
    mapped = watch(ConfigMap, map_to=keys_by_index(copies.store, "source")).map_to(build.config_map("colors"))
    assert sorted(mapped) == [Key("default", "a"), Key("default", "b")]
