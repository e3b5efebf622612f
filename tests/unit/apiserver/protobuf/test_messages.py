from collections.abc import Iterator

import msgspec
import pytest

from kcr.apiserver.protobuf.messages import MESSAGES, ROOTS
from kcr.apiserver.schema.builtin import type_shape
from tools.schema import TABLE

SCALARS = {"bool", "bytes", "ignored", "int", "intstr", "quantity", "raw", "string", "time"}
# The types of messages, by their names alone.
TYPES = {
    name.rpartition(".")[2]: name
    for name in msgspec.json.decode(TABLE.read_bytes())["types"]
    if name.startswith(("core.", "batch.", "meta.", "policy.", "authorization.", "authentication."))
}
# What stays unread: objects have their type beside them, templates no such containers, and no node such volumes.
UNREAD = {
    **dict.fromkeys(ROOTS, "kind apiVersion"),
    "Namespace": "kind apiVersion status",
    "ObjectMeta": "managedFields",
    "DeleteOptions": "apiVersion kind",
    "ResourceAttributes": "fieldSelector labelSelector",
    **dict.fromkeys(
        ("SelfSubjectAccessReview", "SelfSubjectReview", "SelfSubjectRulesReview"), "apiVersion kind status"
    ),
    "PodSpec": "ephemeralContainers schedulingGroup",
    "Volume": "awsElasticBlockStore azureDisk azureFile cephfs cinder ephemeral fc flexVolume flocker "
    "gcePersistentDisk gitRepo glusterfs iscsi photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos "
    "vsphereVolume",
    "VolumeProjection": "podCertificate",
}


def members(name: str) -> Iterator[str]:
    """The names that a message's fields have in JSON."""
    for member, kind in MESSAGES[name].values():
        if member == "-":
            yield from members(kind)
        elif kind != "ignored":
            yield member


def test_every_type_in_the_table_is_known() -> None:
    named = {kind.removeprefix("[]").removeprefix("map[string]") for m in MESSAGES.values() for _, kind in m.values()}
    assert named <= SCALARS | set(MESSAGES)
    assert set(ROOTS) <= set(MESSAGES)


@pytest.mark.parametrize("name", sorted(set(MESSAGES) & set(TYPES)))
def test_members_are_those_of_the_shape(name: str) -> None:
    # What the server keeps of a template, `kubectl create job --from=cronjob/x` sends back in this form.
    assert set(members(name)) == set(type_shape(TYPES[name]).fields) - set(UNREAD.get(name, "").split())
