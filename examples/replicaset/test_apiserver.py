"""The controller over TLS, on the embedded API server or on the one that `KUBEBUILDER_ASSETS` names."""

import asyncio

import pytest

import kcr
from examples.replicaset.controller import setup
from examples.replicaset.test_cluster import manifest
from kcr.api.apps import ReplicaSet
from kcr.api.core import Pod
from kcr.testing import eventually
from kcr_devcluster.testing.controlplane import ApiServer

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]


async def test_pods_are_created_and_deleted_on_any_api_server(kcr_apiserver: ApiServer) -> None:
    client, namespace = kcr_apiserver.client, kcr_apiserver.namespace
    manager = kcr.Manager(client, namespace=namespace)
    setup(manager)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        body = manifest(3)
        body["metadata"]["namespace"] = namespace
        made = await client.create_manifest(ReplicaSet, body, namespace)

        async def observed(replicas: int) -> bool:
            status = (await client.get(ReplicaSet, made.key)).status
            return status.replicas == replicas == len(await client.list(Pod, namespace))

        await eventually(lambda: observed(3))
        await client.merge_patch(ReplicaSet, made.key, {"spec": {"replicas": 0}})
        await eventually(lambda: observed(0))
        task.cancel()
