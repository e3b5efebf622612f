"""The copier on an embedded cluster: a source comes, changes and goes, and its copies do the same."""

import asyncio

import kcr
from examples.configmap_copier.copier import COPY, TO, setup
from kcr.api.core import ConfigMap, Namespace
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster

KEY = kcr.Key("default", "colors")


async def main() -> None:
    """Run the controller, and be its user."""
    async with EmbeddedCluster(runtime=None) as cluster:
        manager = kcr.Manager(cluster.client)
        setup(manager)
        async with manager.running():
            await use(cluster.client)


async def use(client: kcr.Client) -> None:
    """Make a source, change it, delete it; and wait each time until the copies are right."""
    for name in ("blue", "green"):
        await client.create(Namespace(metadata=kcr.ObjectMeta(name=name)))
    metadata = kcr.ObjectMeta(
        name=KEY.name, namespace=KEY.namespace, labels={COPY: "true"}, annotations={TO: "blue,green"}
    )
    await client.create(ConfigMap(metadata=metadata, data={"sky": "blue"}))
    await copied(client, "created, asking for copies in blue and green", {"blue": "blue", "green": "blue"})
    await client.merge_patch(ConfigMap, KEY, {"data": {"sky": "grey"}})
    await copied(client, "changed: the sky is grey", {"blue": "grey", "green": "grey"})
    await client.delete(ConfigMap, kcr.Key("blue", KEY.name))
    await copied(client, "the copy in blue deleted by hand", {"blue": "grey", "green": "grey"})
    await client.merge_patch(ConfigMap, KEY, {"metadata": {"annotations": {TO: "green"}}})
    await copied(client, "asks for a copy in green alone", {"green": "grey"})
    await client.delete(ConfigMap, KEY)
    await copied(client, "deleted", {})


async def copied(client: kcr.Client, what: str, wanted: dict[str, str]) -> None:
    """Wait until the copies are as they should be, and say so."""

    async def right() -> bool:
        found = await client.list(ConfigMap)
        return {
            c.metadata.namespace: c.data["sky"] for c in found if c.metadata.namespace in ("blue", "green")
        } == wanted

    await eventually(right, seconds=10)
    copies = ", ".join(f"{namespace}/{KEY.name} (sky: {sky})" for namespace, sky in wanted.items())
    print(f"{KEY} {what}\n    copies: {copies or 'none'}")


if __name__ == "__main__":
    asyncio.run(main())
