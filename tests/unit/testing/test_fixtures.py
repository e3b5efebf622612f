import pytest
from msgspec.structs import force_setattr, replace

from kcr.api.core import ConfigMap
from kcr.testing import FakeInformer, MutatedError, build, unchanged_stores

COLORS = build.config_map("colors", {"sky": "blue"})


def test_changed_map_in_a_store_is_told() -> None:
    with pytest.raises(MutatedError, match="configmaps default/colors: changed inside the store"), unchanged_stores():
        stored = FakeInformer(ConfigMap, replace(COLORS, data={"sky": "blue"})).store.list()[0]
        stored.data["sky"] = "grey"  # type: ignore[index]  # what the check is for


def test_changed_field_in_a_store_is_told() -> None:
    informer = FakeInformer(ConfigMap)
    with pytest.raises(MutatedError), unchanged_stores():
        force_setattr(informer.add(COLORS), "data", {})


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
