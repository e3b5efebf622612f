import gc

import pytest
from msgspec.structs import force_setattr, replace

from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta
from kcr.testing import FakeInformer, FakeManager, MutatedError, build, unchanged_stores

COLORS = build.config_map("colors", {"sky": "blue"})


def test_changed_map_in_a_store_is_told() -> None:
    with pytest.raises(MutatedError, match="configmaps default/colors: changed inside the store"), unchanged_stores():
        stored = FakeInformer(ConfigMap, replace(COLORS, data={"sky": "blue"})).store.list()[0]
        stored.data["sky"] = "grey"  # type: ignore[index]  # what the check is for


def test_changed_field_in_a_store_is_told() -> None:
    informer = FakeInformer(ConfigMap)
    with pytest.raises(MutatedError), unchanged_stores():
        force_setattr(informer.add(COLORS), "data", {})


@pytest.mark.parametrize("then", ["modify", "delete", "forget"])
def test_mutation_is_told_whatever_becomes_of_the_object(then: str) -> None:
    informer = FakeInformer(ConfigMap)
    with pytest.raises(MutatedError, match="configmaps default/colors"), unchanged_stores():
        informer.add(replace(COLORS, data={"sky": "blue"})).data["sky"] = "grey"  # type: ignore[index]  # see above
        match then:
            case "modify":
                informer.modify(replace(COLORS, data={"sky": "red"}))
            case "delete":
                informer.delete(COLORS)
            case _:
                informer = FakeInformer(ConfigMap)
                gc.collect()


@pytest.mark.kcr_virtual
async def test_patch_of_an_object_that_was_changed_in_place_is_told() -> None:
    with unchanged_stores():
        client = FakeManager().client
        made = await client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default", labels={"x": "1"})))
        (listed,) = await client.list(ConfigMap, "default")
        for found in (made, await client.get(ConfigMap, made.key), listed):
            assert await client.patch(found, found) is found
            found.metadata.labels["x"] = "2"  # type: ignore[index]  # see above
            said = r"^configmaps default/a: patch sends nothing that was changed in place; change a copy: msgspec"
            with pytest.raises(MutatedError, match=said):
                await client.patch(found, found)
            # What was changed in place is in both, and lost beside another change.
            with pytest.raises(MutatedError, match=said):
                await client.patch(found, replace(found, data={"y": "3"}))
        assert (await client.get(ConfigMap, made.key)).data == {}


def test_new_versions_and_deletions_are_no_mutations() -> None:
    with unchanged_stores():
        informer = FakeInformer(ConfigMap, COLORS)
        informer.modify(replace(COLORS, data={"sky": "grey"}))
        informer.delete(COLORS)
        informer.add(COLORS)


def test_store_that_is_not_synced_at_the_end_is_looked_at() -> None:
    with pytest.raises(MutatedError), unchanged_stores():
        informer = FakeInformer(ConfigMap)
        informer.add(replace(COLORS, data={"sky": "blue"})).data["sky"] = "grey"  # type: ignore[index]  # see above
        informer.synced = False
