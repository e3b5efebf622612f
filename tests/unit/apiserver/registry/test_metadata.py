"""What the server makes of metadata."""

import random
import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest

from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS, NAMESPACES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest, timestamp
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.registry import metadata as meta


def test_what_is_empty_or_unknown_is_dropped() -> None:
    given = {"name": "a", "labels": {}, "finalizers": [], "generateName": "", "selfLink": "/x", "x": 1}
    assert meta.decode_metadata(CONFIG_MAPS, given) == {"name": "a", "resourceVersion": ""}


def test_grace_of_zero_is_something() -> None:
    assert meta.decode_metadata(CONFIG_MAPS, {"deletionGracePeriodSeconds": 0})["deletionGracePeriodSeconds"] == 0


@pytest.mark.parametrize(
    "given", ["x", [], {"labels": {"a": 1}}, {"finalizers": "x"}, {"ownerReferences": [{"uid": 1}]}]
)
def test_wrong_types_are_refused(given: object) -> None:
    with pytest.raises(StatusError, match='ConfigMap in version "v1" cannot be handled as a ConfigMap'):
        meta.decode_metadata(CONFIG_MAPS, given)


def test_update_keeps_what_is_the_servers() -> None:
    old = {"name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3}
    new = {
        "name": "a",
        "uid": "other",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 9,
        "labels": {"x": "y"},
    }
    meta.keep_server_fields(new, old)
    assert new == {**old, "labels": {"x": "y"}}


def test_update_keeps_a_deletion_and_begins_none() -> None:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    new = {"deletionTimestamp": "2001-01-01T00:00:00Z"}
    meta.keep_server_fields(new, deleted)
    assert new == deleted
    # What is set here, validation refuses.
    begun = dict(deleted)
    meta.keep_server_fields(begun, {})
    assert begun == deleted


def test_timestamps_are_whole_seconds_in_utc() -> None:
    moment = datetime(2026, 1, 1, 2, 0, 0, 987654, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2026-01-01T00:00:00Z"
    assert timestamp(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"


def test_uids_follow_from_the_seed() -> None:
    assert meta.new_uid(random.Random(1)) == meta.new_uid(random.Random(1))
    assert meta.new_uid(random.Random(1)) != meta.new_uid(random.Random(2))


def test_uids_are_random_uuids_of_version_4() -> None:
    drawn, expected = random.Random(1), random.Random(1)
    for _ in range(50):
        assert meta.new_uid(drawn) == str(uuid.UUID(int=expected.getrandbits(128), version=4))


@pytest.mark.parametrize(
    ("kind", "given", "fields"),
    [
        pytest.param(CONFIG_MAPS, {"name": "a.b"}, [], id="subdomain"),
        pytest.param(NAMESPACES, {"name": "a.b"}, ["metadata.name"], id="namespaces-are-labels"),
        pytest.param(CONFIG_MAPS, {"name": "ab", "generateName": "a-"}, [], id="dash-of-a-base"),
        pytest.param(CONFIG_MAPS, {"name": "ab", "generateName": "_"}, ["metadata.generateName"], id="bad-base"),
        pytest.param(CONFIG_MAPS, {"name": "a", "generation": -1}, ["metadata.generation"], id="generation"),
        pytest.param(
            CONFIG_MAPS,
            {"name": "a", "ownerReferences": [{"apiVersion": "a/b/c", "kind": "Pod", "name": "p", "uid": "u"}]},
            ["metadata.ownerReferences.apiVersion"],
            id="owner-of-no-version",
        ),
        pytest.param(
            CONFIG_MAPS, {"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}, ["metadata.finalizers"],
            id="both-policies",
        ),
    ],
)  # fmt: skip
def test_faults_name_their_fields(kind: Kind, given: Manifest, fields: list[str]) -> None:
    assert [fault.field for fault in meta.validate(kind, given)] == fields


def test_first_reference_to_each_owner_is_kept() -> None:
    given: Manifest = {"ownerReferences": [{"uid": "a", "name": "x"}, {"uid": "b"}, {"uid": "a", "name": "x"}]}
    obj, (warning,) = meta.prepared(CONFIG_MAPS, {"metadata": given}, "shop")
    assert warning.endswith("duplicate UID(s) observed: a")
    assert [one["uid"] for one in obj["metadata"]["ownerReferences"]] == ["a", "b"]
    assert meta.prepared(CONFIG_MAPS, obj, "shop") == (obj, [])
