"""The subresource pods/eviction: deletes a pod, unless that violates its PodDisruptionBudget.

The server only decrements the count of the disruption controller (`status.disruptionsAllowed`), and notes the pod in
`status.disruptedPods`, so that the controller no longer counts it as healthy. A budget whose present spec the
controller has not observed yet allows nothing.

Source: kubernetes/pkg/registry/core/pod/storage/eviction.go; component-helpers/apps/poddisruptionbudget/helpers.go.
"""

from datetime import datetime
from typing import NamedTuple

from kcr_devcluster.apiserver.http.bodies import request_body
from kcr_devcluster.apiserver.http.pods.binding import done, set_condition
from kcr_devcluster.apiserver.http.sent_objects import decode_sent
from kcr_devcluster.apiserver.http.writing import Write
from kcr_devcluster.apiserver.kinds.catalogue import DISRUPTION_BUDGETS
from kcr_devcluster.apiserver.protocol.manifests import Manifest, timestamp
from kcr_devcluster.apiserver.protocol.names import selects
from kcr_devcluster.apiserver.protocol.responses import APIResponse, StatusError, bad_request, forbidden
from kcr_devcluster.apiserver.registry.deletion import check_preconditions, delete
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.storage.admission import CREATE
from kcr_devcluster.apiserver.storage.records import Record

# So many evictions may be allowed that the disruption controller has not observed: MaxDisruptedPodSize.
MAX_DISRUPTED_PODS = 2000
# The condition of a budget that the disruption controller writes.
CONDITION = "DisruptionAllowed"
_RETRY_AFTER_SECONDS = 10
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class _Budget(NamedTuple):
    """A stored budget."""

    record: Record
    manifest: Manifest

    @property
    def name(self) -> str:
        return self.record.metadata.name

    @property
    def status(self) -> Manifest:
        found: Manifest = self.manifest.get("status") or {}
        return found

    def number(self, name: str) -> int:
        found: int = self.status.get(name) or 0
        return found


def evict(registry: Registry, write: Write) -> APIResponse:
    """Handle a POST on pods/eviction: the pod gets the condition DisruptionTarget, then it is deleted.

    Raises:
        StatusError: 429, a budget does not allow it at present; 500, several budgets select the pod.
    """
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    sent = decode_sent(write, "policy.v1.Eviction", "policy/v1", "policy/v1beta1")
    # The deletion that follows is the server's own, and is not reviewed.
    sent = sent.reviewed(write.attributes(CREATE, dry_run=dry_run))
    if sent.metadata.get("name") != route.name:
        raise bad_request("name in URL does not match name in Eviction object")
    options = request_body.parse_delete_options(sent.manifest.get("deleteOptions") or {})
    if dry_run:
        options = options._replace(dry_run=True)
    old = registry.find(route.kind, route.namespace, route.name)
    before, new = old.manifest(), old.manifest()
    now = registry.clock.now()
    budget = _guarding(registry, old, before)
    counted = None if budget is None else _counted_down(budget, route.name, now)
    # Upstream counts down first: there, an eviction whose preconditions do not hold uses up the budget for two minutes.
    check_preconditions(old, options)
    if budget is not None and counted is not None:
        registry.store(budget.record, counted, budget.manifest, dry_run=options.dry_run)
    set_condition(new, now, type="DisruptionTarget", reason="EvictionByEvictionAPI", message="Eviction API: evicting")
    marked = registry.store(old, new, before, dry_run=options.dry_run)
    # The condition has changed the resourceVersion; the precondition was checked before.
    delete(registry, old if options.dry_run else marked, options._replace(resource_version=None))
    return done(sent.warnings)


def _guarding(registry: Registry, record: Record, pod: Manifest) -> _Budget | None:
    """Return the budget that has to allow the eviction of a pod, None where none has to.

    Pods that have ended, have not started or are terminating are not guarded. Nor are pods that are not ready, when the
    others are healthy enough or `unhealthyPodEvictionPolicy` allows it.

    Raises:
        StatusError: 500, several budgets select the pod.
    """
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed", "Pending") or record.metadata.deletion_timestamp is not None:
        return None
    found = [
        _Budget(one, manifest)
        for one in registry.storage.cache(DISRUPTION_BUDGETS).records.values()
        if one.metadata.namespace == record.metadata.namespace
        and (selector := ((manifest := one.manifest()).get("spec") or {}).get("selector")) is not None
        and selects(selector, record.metadata.labels)
    ]
    if len(found) > 1:
        raise StatusError(500, "", _SEVERAL)
    if not found:
        return None
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ())
    if ready:
        return found[0]
    always = found[0].manifest["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    desired = found[0].number("desiredHealthy")
    return None if always or found[0].number("currentHealthy") >= desired > 0 else found[0]


def _counted_down(budget: _Budget, pod: str, now: datetime) -> Manifest:
    """Return a budget with one disruption less allowed.

    Raises:
        StatusError: 429 or 403, it allows none.
    """
    said = budget.status
    if budget.number("observedGeneration") < budget.manifest["metadata"].get("generation", 0):
        why = f"The disruption budget {budget.name} is still being processed by the server."
        raise _too_many_requests(why, _RETRY_AFTER_SECONDS)
    allowed, disrupted = budget.number("disruptionsAllowed"), said.get("disruptedPods") or {}
    named = budget.record.kind.type._replace(plural="poddisruptionbudget")
    if len(disrupted) > MAX_DISRUPTED_PODS:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(named, budget.name, why)
    if allowed <= 0:
        raise _too_many_requests(_why_not(budget))
    status = {**said, "disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, pod: timestamp(now)}}
    if allowed == 1:
        status["conditions"] = [
            _insufficient(one, now) if one.get("type") == CONDITION else one for one in said.get("conditions") or ()
        ]
    return {**budget.manifest, "status": status}


def _insufficient(condition: Manifest, now: datetime) -> Manifest:
    moment = condition.get("lastTransitionTime") if condition.get("status") == "False" else timestamp(now)
    return {**condition, "status": "False", "reason": "InsufficientPods", "lastTransitionTime": moment}


def _why_not(budget: _Budget) -> str:
    conditions = budget.status.get("conditions") or ()
    failed: Manifest = next(
        (one for one in conditions if one.get("type") == CONDITION and one.get("status") == "False"), {}
    )
    refused = f"The disruption budget {budget.name} does not allow evicting pods currently"
    if failed.get("message") and failed.get("reason") == "SyncFailed":
        return f"{refused} because it failed sync: {failed['message']}"
    desired, current = budget.number("desiredHealthy"), budget.number("currentHealthy")
    if current <= desired:
        return f"The disruption budget {budget.name} needs {desired} healthy pods and has {current} currently"
    return f"{refused} ({failed.get('reason', '')}): {failed['message']}" if failed.get("message") else refused


def _too_many_requests(why: str, retry_after_seconds: int = 0) -> StatusError:
    return StatusError(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={"causes": [{"reason": "DisruptionBudget", "message": why}]},
        retry_after_seconds=retry_after_seconds,
    )
