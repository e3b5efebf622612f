"""Revisions, hashes and histories of Deployments."""

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from kcr.api.apps import DeploymentStatus, ReplicaSet
from kcr.api.meta import is_controlled_by
from kcr.testing import build
from kcr_devcluster.cluster.workloads.revisions import (
    HASH_LABEL,
    REVISION,
    REVISION_HISTORY,
    History,
    history_of,
    new_replica_set,
    revision_of,
    same_template,
    surplus_history,
    template_hash,
    with_revision,
)
from tests.kit.workloads import LABELS, deployed, sized, template_of


def aged(replica_set: ReplicaSet, minutes: int) -> ReplicaSet:
    created = build.CREATED + timedelta(minutes=minutes)
    return replace(replica_set, metadata=replace(replica_set.metadata, creation_timestamp=created))


def test_new_replica_set_is_the_oldest_with_the_present_template() -> None:
    v1, v2, twin = (aged(sized(name, 0), age) for name, age in (("v1", 0), ("v2", 1), ("v2", 2)))
    assert history_of(deployed(), [twin, v2, v1]) == History(v2, (v1, twin))
    assert history_of(deployed(template=template_of("v3")), [v2, v1]) == History(None, (v1, v2))


def test_templates_are_compared_without_hash_and_without_nothing() -> None:
    labelled = template_of("v2", **{HASH_LABEL: "abc"})
    nothing = msgspec.json.decode(template_of("v2")) | {"metadata": {"labels": LABELS, "creationTimestamp": None}}
    assert same_template(template_of("v2"), labelled)
    assert same_template(template_of("v2"), msgspec.Raw(msgspec.json.encode(nothing)))
    assert not same_template(template_of("v2"), template_of("v1"))


def test_hash_differs_with_the_template_and_the_collisions() -> None:
    hashes = {template_hash(template_of(image), count) for image in ("v1", "v2") for count in (0, 1)}
    assert len(hashes) == 4
    assert template_hash(template_of("v2", **{HASH_LABEL: "abc"}), 0) in hashes


def test_new_replica_set_selects_its_own_pods_only() -> None:
    web = deployed(min_ready_seconds=5)
    web = replace(web, metadata=replace(web.metadata, annotations={"note": "a", REVISION: "7"}))
    made = new_replica_set(web, History(None, (sized("v1", 1, revision=3),)))
    suffix = made.metadata.labels[HASH_LABEL]
    assert made.metadata.name == f"web-{suffix}"
    assert made.spec.selector is not None
    assert made.spec.selector.match_labels == {**LABELS, HASH_LABEL: suffix}
    assert msgspec.json.decode(made.spec.template)["metadata"]["labels"] == {**LABELS, HASH_LABEL: suffix}
    assert dict(made.metadata.annotations) == {"note": "a", REVISION: "4"}
    assert made.spec.min_ready_seconds == 5
    assert is_controlled_by(made, web)


def test_name_changes_after_a_collision() -> None:
    names = {
        new_replica_set(deployed(status=DeploymentStatus(collision_count=count)), History(None, ())).metadata.name
        for count in (None, 1, 2)
    }
    assert len(names) == 3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("0" * 5000 + "3", 3),
        ("9" * 5000, 0),
        ("9" * 20, 0),
        ("-3", 0),
        ("3_0", 0),
        ("\N{SUPERSCRIPT TWO}", 0),
    ],
)
def test_revision_that_was_written_by_hand_is_a_number_or_none(text: str, number: int) -> None:
    written = sized("v1", 1, revision=3)
    annotations = {**written.metadata.annotations, REVISION: text}
    assert revision_of(replace(written, metadata=replace(written.metadata, annotations=annotations))) == number


def test_rolling_back_gives_a_new_number_and_keeps_the_old_one() -> None:
    back = with_revision(sized("v2", 0, revision=1), deployed(), History(None, (sized("v1", 3, revision=2),)))
    assert (revision_of(back), back.metadata.annotations[REVISION_HISTORY]) == (3, "1")
    again = with_revision(back, deployed(), History(None, (sized("v1", 3, revision=4),)))
    assert (revision_of(again), again.metadata.annotations[REVISION_HISTORY]) == (5, "1,3")
    assert with_revision(again, deployed(), History(None, (sized("v1", 3, revision=4),))) == again


def test_history_beyond_the_limit_goes_by_revision() -> None:
    idle = [sized(f"v{number}", 0, revision=number) for number in (3, 1, 2)]
    web = deployed(revision_history_limit=1)
    assert [one.metadata.name for one in surplus_history(web, History(None, tuple(idle)))] == ["v1", "v2"]
    # One that has pods stays, and none goes in its place.
    busy = [sized("v1", 1, revision=1), *idle[::2]]
    assert [one.metadata.name for one in surplus_history(web, History(None, tuple(busy)))] == ["v2"]
    assert surplus_history(deployed(), History(None, tuple(idle))) == ()
