import msgspec
import pytest
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.core import ConfigMap
from kcr.api.meta import Resource
from kcr.dependents import claim_decision
from kcr.dependents.claim import adoption, release
from kcr_devcluster.apiserver.patch.json_patch import json_patch
from tests.kit.owners import GONE, Website, config_map, reference, website

MINE, OTHERS = (reference(),), (reference("other", "uid-other"),)


@pytest.mark.parametrize(
    ("owner", "obj", "wanted", "verdict"),
    [
        pytest.param(website(), config_map(owner_references=OTHERS), True, "ignore", id="other-owner"),
        pytest.param(website(), config_map(owner_references=MINE), True, "keep", id="mine"),
        pytest.param(website(), config_map(owner_references=MINE), False, "release", id="mine-no-longer-wanted"),
        pytest.param(
            website(deletion_timestamp=GONE), config_map(owner_references=MINE), False, "ignore", id="no-release-at-end"
        ),
        pytest.param(
            website(deletion_timestamp=GONE), config_map(owner_references=MINE), True, "keep", id="mine-to-the-end"
        ),
        pytest.param(website(), config_map(), True, "adopt", id="nobodys"),
        pytest.param(website(), config_map(), False, "ignore", id="nobodys-and-not-wanted"),
        pytest.param(website(deletion_timestamp=GONE), config_map(), True, "ignore", id="no-adoption-at-end"),
        pytest.param(website(), config_map(deletion_timestamp=GONE), True, "ignore", id="dying"),
        pytest.param(website(), config_map(namespace="elsewhere"), True, "ignore", id="other-namespace"),
        pytest.param(
            website(),
            config_map(owner_references=(reference(controller=None),)),
            True,
            "adopt",
            id="owned-without-control",
        ),
        pytest.param(
            website(), config_map(owner_references=(reference(uid="older"),)), True, "ignore", id="an-older-ones"
        ),
    ],
)
def test_table_of_claims(owner: Resource, obj: ConfigMap, wanted: bool, verdict: str) -> None:  # EX-24
    assert claim_decision(owner, obj, wanted=wanted) == verdict


def test_adoption_of_a_built_in_kind_names_the_uid() -> None:  # EX-26
    patch = msgspec.json.decode(codec.encode(adoption(website(), config_map(), "kcr.dev/x")))
    assert patch == {
        "metadata": {
            "uid": "uid-settings",
            "finalizers": ["kcr.dev/x"],
            "ownerReferences": [
                {
                    "apiVersion": "example.dev/v1", "kind": "Website", "name": "shop", "uid": "uid-shop",
                    "controller": True, "blockOwnerDeletion": True,
                }
            ],
        }
    }  # fmt: skip


def test_release_of_a_built_in_kind_deletes_by_the_owners_uid() -> None:  # EX-27
    patch = release(website(), config_map(owner_references=MINE), "kcr.dev/x")
    assert patch == {
        "metadata": {
            "uid": "uid-settings",
            "ownerReferences": [{"$patch": "delete", "uid": "uid-shop"}],
            "$deleteFromPrimitiveList/finalizers": ["kcr.dev/x"],
        }
    }


@pytest.mark.parametrize("finalizer", ["", "kcr.dev/x"])
def test_custom_kinds_are_adopted_and_released_by_json_patches(finalizer: str) -> None:  # EX-28
    owner, page = website(), website("page", "uid-page", resource_version="7", finalizers=("a",))
    adopted = patched(page, adoption(owner, page, finalizer))
    assert adopted.metadata.owner_references == MINE
    assert adopted.metadata.finalizers == (("a", finalizer) if finalizer else ("a",))
    assert patched(adopted, release(owner, adopted, finalizer)) == page


def test_plain_owner_becomes_controller_in_place() -> None:  # EX-28
    owner, plain = website(), (reference(controller=None),)
    page = website("page", "uid-page", resource_version="7", owner_references=plain)
    assert patched(page, adoption(owner, page)).metadata.owner_references == MINE


@pytest.mark.parametrize("change", [{"uid": "another"}, {"resource_version": "8"}], ids=str)
def test_json_patch_fails_on_an_object_that_has_changed(change: dict[str, str]) -> None:  # EX-28
    page = website("page", "uid-page", resource_version="7")
    changed = replace(page, metadata=replace(page.metadata, **change))
    with pytest.raises(Exception, match=r"rejected our request|test"):
        patched(changed, adoption(website(), page))


def patched(obj: Website, patch: object) -> Website:
    document, operations = (msgspec.json.decode(codec.encode(value)) for value in (obj, patch))
    return codec.decode(Website, msgspec.json.encode(json_patch(document, operations)))
