"""Defaults of a class on the server: rules rely on them, and objects show them."""

from collections.abc import Mapping

import pytest

import kcr
from kcr.errors import InvalidError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]


class BackupSpec(kcr.Object, validations=(kcr.Validation("self.bucket != '' || self.local", "name a bucket"),)):
    bucket: str = ""
    local: bool = False
    retries: int = 0
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}


class Backup(kcr.Resource, api_version="example.dev/v1", plural="backups"):
    spec: BackupSpec


async def test_rule_meets_the_empty_default_of_a_field(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, kinds=[Backup]) as cluster:
        metadata = kcr.ObjectMeta(name="a", namespace="default")
        with pytest.raises(InvalidError, match="name a bucket") as refused:
            await cluster.client.create(Backup(metadata=metadata, spec=BackupSpec()))
        assert "no such key" not in str(refused.value)
        await cluster.client.create(Backup(metadata=metadata, spec=BackupSpec(local=True)))
        found = await cluster.client.get(
            kcr.unstructured("example.dev/v1", "Backup", plural="backups"), kcr.Key("default", "a")
        )
        assert found.get("spec") == {"bucket": "", "local": True, "retries": 0}
