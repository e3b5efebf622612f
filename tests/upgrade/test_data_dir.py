"""The data folder of `kcr dev` of 0.1.0 opens in the present version, with all that is in it."""

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kcr.api.batch import Job, is_finished
from kcr.api.core import ConfigMap
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, HttpTransport, load_config
from kcr.testing import eventually
from tests.e2e.processes import Running, Start
from tests.kit.harness import manifest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "shops.example.dev"},
    "spec": {
        "group": "example.dev", "scope": "Namespaced",
        "names": {"kind": "Shop", "listKind": "ShopList", "plural": "shops", "singular": "shop"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }],
    },
}  # fmt: skip
LABELS = {"app": "web"}
OBJECTS: tuple[Mapping[str, Any], ...] = (
    DEFINITION,
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"a": "ü" * 1000}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}, "stringData": {"a": "b"}},
    {"apiVersion": "example.dev/v1", "kind": "Shop", "metadata": {"name": "shop"}, "spec": {"open": True}},
    {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}},
        },
    },
    manifest("long", annotations={"sim.kcr.dev/run-for": "6s"}, completions=2, parallelism=1),
    manifest("done"),
)  # fmt: skip
PATHS = (
    "/api/v1/namespaces", "/api/v1/configmaps", "/api/v1/secrets", "/api/v1/serviceaccounts",
    "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/batch/v1/jobs", "/apis/example.dev/v1/shops",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)  # fmt: skip
OPTIONS = ("--runtime", "simulated", "--controllers", "job")


async def stored(client: Client) -> dict[tuple[str, str, str], dict[str, Any]]:
    """All objects of the paths, without what a restart changes: their versions, their managers and their status."""
    found = {}
    for path in PATHS:
        for one in msgspec.json.decode(await client.request("GET", path))["items"]:
            metadata = {**one["metadata"], "resourceVersion": "", "managedFields": []}
            key = (path, metadata.get("namespace", ""), metadata["name"])
            found[key] = {**one, "metadata": metadata, "status": {}}
    return found


async def is_done(client: Client, name: str) -> Job | None:
    job = await client.get(Job, Key("default", name))
    return job if is_finished(job) else None


async def connect(dev: Running) -> HttpTransport:
    return HttpTransport(load_config(str(await dev.kubeconfig())))


@pytest.mark.soak
async def test_all_objects_are_there_and_a_running_job_continues(kcr: Start, kcr_before: Start, tmp_path: Path) -> None:
    folder = ("--data-dir", str(tmp_path / "data"))
    manifests = tmp_path / "objects.yaml"
    manifests.write_text(yaml.safe_dump_all(OBJECTS))
    async with kcr_before("dev", *folder, *OPTIONS, "-f", str(manifests)) as dev, await connect(dev) as transport:
        client = Client(transport)
        await eventually(lambda: is_done(client, "done"), seconds=30)

        async def is_amid() -> bool:
            return (await client.get(Job, Key("default", "long"))).status.succeeded == 1

        await eventually(is_amid, seconds=30)
        # The Deployment has its pods, and nothing else changes before the second pod of the Job has ended.
        await asyncio.sleep(0.5)
        before = await stored(client)
        newest = int((await client.list_page(Job))[0].resource_version)
        assert await dev.stop(signal.SIGTERM) == 0
    assert {path for path, _, _ in before} == set(PATHS)
    async with kcr("dev", *folder, *OPTIONS) as dev, await connect(dev) as transport:
        client = Client(transport)
        assert {key: one for key, one in (await stored(client)).items() if key in before} == before
        made = await client.create(ConfigMap(metadata=ObjectMeta(name="new", namespace="default"), data={}))
        assert int(made.metadata.resource_version) > newest, "versions go back"
        job = await eventually(lambda: is_done(client, "long"), seconds=60)
        assert job is not None
        # The pod that ran is lost with the process, once; the one that had ended counts as before.
        assert (job.status.succeeded, job.status.failed) == (2, 1)
        assert await dev.stop(signal.SIGTERM) == 0
