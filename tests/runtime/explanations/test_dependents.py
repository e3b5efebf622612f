"""What `kcr explain` prints where the cause is another object, whole: what an object owns, a webhook that refuses."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

import kcr
from kcr.api.apps import Deployment
from kcr.api.batch import Job
from kcr.api.core import Event, ObjectReference, Pod
from kcr.api.meta import controller_reference
from kcr.api.unstructured import unstructured
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.explanations import explained_object, text
from tests.kit.harness import manifest
from tests.kit.workloads import deployment


class SiteStatus(kcr.Object):
    ready: bool | None = None


class Site(kcr.Resource, api_version="shop.example.dev/v1", plural="sites"):
    status: SiteStatus = SiteStatus()


pytestmark = [pytest.mark.kcr_virtual, pytest.mark.kcr_cluster(kinds=[Site])]

CONFIG = unstructured(
    "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", plural="validatingwebhookconfigurations",
    namespaced=False,
)  # fmt: skip
POLICY, BINDING = (
    unstructured("admissionregistration.k8s.io/v1", kind, plural=plural, namespaced=False)
    for kind, plural in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"),
    )
)
SERVICE = unstructured("v1", "Service", plural="services")
REFUSAL = (
    'Error creating: Internal error occurred: failed calling webhook "pods.example.dev": failed to call webhook: Post '
    '"https://hooks.default.svc:443/pods?timeout=10s": no endpoints available for service "hooks"'
)


def fail_runs(cluster: EmbeddedCluster) -> None:
    for node in cluster.nodes.values():
        node.on_run = lambda pod, container, attempt: RunResult(4, run_for=1)


async def test_own_kind_leads_to_the_pods_of_its_deployment(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    fail_runs(kcr_cluster)
    site = await kcr_cluster.client.create(Site(metadata=kcr.ObjectMeta(name="shop", namespace="default")))
    made = deployment(replicas=2)
    made["metadata"]["ownerReferences"] = [msgspec.to_builtins(controller_reference(site))]
    await kcr_cluster.client.create_manifest(Deployment, made, "default")
    await kcr_clock.advance(20)
    assert await explained_object(kcr_cluster.client, kcr_clock, "site/shop") == text("""
        site default/shop: its deployment web has 2 of 2 pods whose container crashes again and again: exit
          code 4
          wanted      generation 1
          why         pod web-x-x: container web ended 7s ago with exit code 4; it waits
                        (restarted 2 times): CrashLoopBackOff: back-off 20s restarting failed container=web;
                        the same holds for 1 more pod
          remedy      see the output of its last run: kubectl -n default logs web-x-x -p
                      see the pod: kcr explain -n default pod/web-x-x
                      see it: kcr explain -n default deployment/web
    """)


@pytest.mark.kcr_cluster(kinds=[Site], controllers=["job"])
async def test_own_kind_leads_to_its_failed_job_and_not_to_the_completed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    site = await kcr_cluster.client.create(Site(metadata=kcr.ObjectMeta(name="shop", namespace="default")))
    for name, limit in (("pi", 0), ("done", 6)):
        made = manifest(name, backoffLimit=limit)
        made["metadata"]["ownerReferences"] = [msgspec.to_builtins(controller_reference(site))]
        if name == "pi":
            fail_runs(kcr_cluster)
        await kcr_cluster.client.create_manifest(Job, made, "default")
        await kcr_clock.advance(5)
        for node in kcr_cluster.nodes.values():
            node.on_run = None
    assert await explained_object(kcr_cluster.client, kcr_clock, "site/shop") == text("""
        site default/shop: its job pi Failed 9s ago: BackoffLimitExceeded
          wanted      generation 1
          why         Job has reached the specified backoff limit
                      pod pi-x failed 9s ago: container c: Error, exit code 4
          remedy      see the output of its pods: kcr logs -n default job/pi
                      run it again, as a new Job: kcr rerun -n default job/pi
                      see it: kcr explain -n default job/pi
    """)


async def create_webhook(client: kcr.Client) -> None:
    """Make the configuration of a webhook, and its service without endpoints."""
    service = {"metadata": {"name": "hooks"}, "spec": {"ports": [{"port": 443}]}}
    await client.create_manifest(SERVICE, service, "default")
    hook = {
        "name": "pods.example.dev", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "clientConfig": {"service": {"namespace": "default", "name": "hooks"}, "caBundle": "eA=="},
    }  # fmt: skip
    await client.create(CONFIG.of({"metadata": {"name": "hooks"}, "webhooks": [hook]}))


async def test_refusing_webhook_is_named_with_its_configuration(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    # The event is what a Job's controller writes of the refusal.
    client = kcr_cluster.client
    await create_webhook(client)
    job = await client.create_manifest(Job, manifest(), "default")
    about = ObjectReference(kind="Job", namespace="default", name="pi", uid=job.metadata.uid)
    metadata = kcr.ObjectMeta(name="pi.1", namespace="default")
    await client.create(
        Event(metadata=metadata, involved_object=about, type="Warning", reason="FailedCreate", message=REFUSAL,
              last_timestamp=kcr_clock.now())
    )  # fmt: skip
    await kcr_clock.advance(5)
    assert await explained_object(client, kcr_clock, "job/pi") == text("""
        job default/pi: cannot create pods: an admission webhook does not answer
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          next        tries again to create 1 pod: 1s after the first refusal, then twice as long each time,
                        60s at most
          why         5s ago: Error creating: Internal error occurred: failed calling webhook
                        "pods.example.dev": failed to call webhook: Post
                        "https://hooks.default.svc:443/pods?timeout=10s": no endpoints available for service
                        "hooks"
                      pods.example.dev is a webhook of ValidatingWebhookConfiguration hooks: its service
                        default/hooks has no ready endpoint
          remedy      mend its service, or set failurePolicy Ignore until then; where it is called:
                        kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations -o yaml
                      see the webhook: kcr explain validatingwebhookconfiguration/hooks
    """)
    assert await explained_object(client, kcr_clock, "validatingwebhookconfiguration/hooks") == text("""
        validatingwebhookconfiguration hooks: refuses all requests that it reviews: its service
          default/hooks has no ready endpoint
          wanted      1 webhook: pods.example.dev
          why         webhook pods.example.dev (Fail): its service default/hooks has no ready endpoint
                      webhook pods.example.dev reviews CREATE of pods
          remedy      mend it: kubectl -n default get service,endpointslices,pods
                      until then, to let requests pass unchecked, set failurePolicy to Ignore:
                        kubectl edit validatingwebhookconfiguration hooks
    """)


class NoRoot:
    def validate_create(self, obj: Pod, request: kcr.WebhookRequest) -> None:
        raise kcr.Denied("pods of root are refused", field="spec.securityContext")


@pytest.mark.kcr_cluster(kinds=[Site], controllers=["job"])
async def test_denying_webhook_is_named_with_its_configuration(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    manager = kcr.Manager(client, clock=kcr_clock)
    manager.add_webhook(Pod, NoRoot())
    async with manager.running():
        await client.create_manifest(Job, manifest(), "default")
        await kcr_clock.advance(5)
        assert await explained_object(client, kcr_clock, "job/pi") == text("""
            job default/pi: cannot create pods: an admission webhook denies them
              wanted      1 completion, 1 pod at once, backoffLimit 6
              present     0 succeeded, 0 failed, 0 active (0 ready)
              next        in 2s: tries again to create 1 pod
              why         2s ago, 3 times: Error creating: admission webhook "validate.v1.pods.core" denied the
                            request: spec.securityContext: pods of root are refused
                          validate.v1.pods.core is a webhook of ValidatingWebhookConfiguration
                            kcr-webhooks-in-process
              remedy      create the Job anew with a template that it accepts, or change its rules
                          see the webhook: kcr explain validatingwebhookconfiguration/kcr-webhooks-in-process
        """)


@pytest.mark.kcr_cluster(kinds=[Site], controllers=["job"])
async def test_denying_policy_is_named(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    client = kcr_cluster.client
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    spec: Mapping[str, Any] = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [
            {"expression": "has(object.spec.securityContext.runAsUser)", "message": "pods of root are refused"}
        ],
    }
    binding: Mapping[str, Any] = {"policyName": "no-root", "validationActions": ["Deny"]}
    for kind, said in ((POLICY, spec), (BINDING, binding)):
        await client.create(kind.of({"metadata": {"name": "no-root"}, "spec": said}))
    await client.create_manifest(Job, manifest(), "default")
    await kcr_clock.advance(5)
    assert await explained_object(client, kcr_clock, "job/pi") == text("""
        job default/pi: cannot create pods: a ValidatingAdmissionPolicy denies them
          wanted      1 completion, 1 pod at once, backoffLimit 6
          present     0 succeeded, 0 failed, 0 active (0 ready)
          next        in 2s: tries again to create 1 pod
          why         2s ago, 3 times: Error creating: pods "pi-x" is forbidden:
                        ValidatingAdmissionPolicy 'no-root' with binding 'no-root' denied request: pods of
                        root are refused
          remedy      create the Job anew with a template that it accepts; the policy:
                        kubectl get validatingadmissionpolicy no-root -o yaml
    """)
