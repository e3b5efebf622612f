"""The controller of Websites: a ConfigMap with the page, a Deployment that serves it, and an entry in a list of sites.

Run it on the cluster of your kubeconfig: `python -m examples.website.controller`
"""

import hashlib
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

import kcr
from examples.website.api import Website, WebsiteStatus
from kcr.api.core import ConfigMap
from kcr.api.full.apps_v1 import Deployment, DeploymentSpec
from kcr.api.full.core_v1 import ConfigMapEnvSource, Container, EnvFromSource, PodSpec, PodTemplateSpec
from kcr.api.meta import controller_reference
from kcr.api.selectors import LabelSelector
from kcr.controller import any_of, finalizers_changed

# The ConfigMap of a namespace that lists its websites. It belongs to none of them, so deleting a website must take
# its entry out: that is what the finalizer is for.
SITES = "websites"
FINALIZER = "example.dev/sites"
# Which website an object belongs to, and which page a pod was started with.
NAME, PAGE = "example.dev/website", "example.dev/page"
# Writes the page to a file and serves it, at a free port: on `kcr dev`, all pods share the ports of your machine.
SERVE = 'printf %s "$html" >index.html && exec python3 -u -m http.server 0'


class WebsiteReconciler:
    """Brings what exists of one website closer to its spec; level-triggered and idempotent."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._websites = manager.store(Website)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Apply the objects of a website, and write its status; when it is being deleted, clean up."""
        website = self._websites.get(key)
        if website is None:
            # Its ConfigMap and Deployment are garbage collected: they have owner references.
            return kcr.Result()
        if not await kcr.finalized(self._client, website, FINALIZER, lambda: self._unlist(website)):
            return kcr.Result()
        try:
            await self._apply(website)
        except kcr.ForbiddenError as error:
            # All objects of a terminating namespace are deleted, and none can be created: nothing is left to do.
            if not kcr.is_namespace_ending(error):
                raise
        return kcr.Result()

    async def _apply(self, website: Website) -> None:
        """Apply the objects of a website, and write its status."""
        # Server-side apply: sends what we have an opinion on, and leaves alone what we have none on.
        await self._client.apply(config_map(website), force=True)
        deployed = await self._client.apply(deployment(website), force=True)
        await self._list(website)
        status = compute_status(website, deployed, self._clock.now())
        await self._client.patch_status(website, replace(website, status=status))

    async def _list(self, website: Website) -> None:
        """Enter the website into the list of its namespace."""
        sites = ConfigMap(metadata=kcr.ObjectMeta(name=SITES, namespace=website.metadata.namespace))
        entry = {website.metadata.name: website.spec.title}
        await kcr.create_or_patch(self._client, sites, lambda found: replace(found, data={**found.data, **entry}))

    async def _unlist(self, website: Website) -> None:
        """Take the website out of the list, which may be deleted already: with its namespace, or by hand."""
        sites = kcr.Key(website.metadata.namespace, SITES)
        with suppress(kcr.NotFoundError):
            await self._client.merge_patch(ConfigMap, sites, {"data": {website.metadata.name: None}})


def config_map(website: Website) -> ConfigMap:
    """Return the ConfigMap with the page."""
    return ConfigMap(metadata=owned_by(website), data={"html": website.spec.html})


def deployment(website: Website) -> Deployment:
    """Return the Deployment whose pods serve the page."""
    labels = {NAME: website.metadata.name}
    # A ConfigMap that changes restarts no pod. A template that changes does: so it has the page's digest.
    page = hashlib.sha256(website.spec.html.encode()).hexdigest()[:16]
    container = Container(
        name="server",
        image=website.spec.image,
        command=("sh", "-c", SERVE),
        env_from=(EnvFromSource(config_map_ref=ConfigMapEnvSource(name=website.metadata.name)),),
    )
    return Deployment(
        metadata=owned_by(website),
        spec=DeploymentSpec(
            replicas=website.spec.replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=kcr.ObjectMeta(labels=labels, annotations={PAGE: page}),
                spec=PodSpec(containers=(container,)),
            ),
        ),
    )


def owned_by(website: Website) -> kcr.ObjectMeta:
    """Return the metadata of an object that belongs to a website, and is garbage collected after it."""
    return kcr.ObjectMeta(
        name=website.metadata.name,
        namespace=website.metadata.namespace,
        labels={NAME: website.metadata.name},
        owner_references=(controller_reference(website),),
    )


def compute_status(website: Website, deployed: Deployment, now: datetime) -> WebsiteStatus:
    """Return the status of a website: a plain function, so its tests need no server.

    Args:
        website: The website.
        deployed: Its Deployment, as the server has it.
        now: The moment at which a condition changes.
    """
    generation, found = website.metadata.generation, kcr.readiness(deployed)
    condition = kcr.Condition(
        type="Ready",
        status=str(found.is_ready),
        reason="Serving" if found.is_ready else "RollingOut",
        message=found.message or "all pods serve the present page",
        observed_generation=generation,
    )
    return WebsiteStatus(
        observed_generation=generation,
        ready=(deployed.status.available_replicas if deployed.status else None) or 0,
        conditions=kcr.set_condition(website.status.conditions, condition, now),
    )


# What it asks of the server beside its watches: `kcr rbac generate` makes a role of it. Applying an object needs
# `patch`, and `create` where there is none yet.
RIGHTS = (
    kcr.rights(Website, "patch")
    | kcr.rights(Website, "patch", subresource="status")
    # Where owner references are checked (OwnerReferencesPermissionEnforcement).
    | kcr.rights(Website, "update", subresource="finalizers")
    | kcr.rights(ConfigMap, "get", "create", "patch")
    | kcr.rights(Deployment, "create", "patch")
)


def setup(manager: kcr.Manager) -> None:
    """Attach the controller to a manager."""
    manager.add_controller(
        "website",
        WebsiteReconciler(manager),
        watches=[
            # Not for the status that it writes itself.
            kcr.watch(Website, predicate=any_of(kcr.generation_changed, finalizers_changed)),
            kcr.owned(Deployment, by=Website),
            kcr.owned(ConfigMap, by=Website),
        ],
        workers=10,
        rights=RIGHTS,
    )


if __name__ == "__main__":
    kcr.run(setup)
