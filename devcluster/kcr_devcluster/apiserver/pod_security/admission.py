"""Pod Security admission: refuses pods below the level of their namespace, and warns about templates.

No user, namespace or runtime class is exempt, as with upstream's default configuration.

Source: k8s.io/pod-security-admission/admission/admission.go, Validate;
kubernetes/plugin/pkg/admission/security/podsecurity/admission.go.
"""

from collections.abc import Iterable, Mapping

from kcr_devcluster.apiserver.kinds.catalogue import KINDS, NAMESPACES, PODS
from kcr_devcluster.apiserver.pod_security.policies import (
    NO_POLICY,
    PRIVILEGED,
    NamespacePolicy,
    policy_of,
    violations,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import forbidden, invalid
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionContext, AdmissionStep
from kcr_devcluster.apiserver.storage.records import Change, Record

# Where the pod templates of workloads are.
_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("v1", "PodTemplate"): ("template",),
    ("v1", "ReplicationController"): ("spec", "template"),
    ("apps/v1", "DaemonSet"): ("spec", "template"),
    ("apps/v1", "Deployment"): ("spec", "template"),
    ("apps/v1", "ReplicaSet"): ("spec", "template"),
    ("apps/v1", "StatefulSet"): ("spec", "template"),
    ("batch/v1", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("batch/v1", "Job"): ("spec", "template"),
}
_WITH_TEMPLATES = tuple(kind for kind in KINDS if (kind.type.api_version, kind.type.kind) in _TEMPLATES)
_MOST_PODS = 3000
_CONTAINERS = ("containers", "initContainers")


class PodSecurityAdmission(AdmissionStep):
    """Holds pods, workloads and namespaces against the Pod Security labels of namespaces."""

    kinds = (PODS, NAMESPACES, *_WITH_TEMPLATES)

    def __init__(self, context: AdmissionContext) -> None:
        super().__init__(context)
        self._newest = int(context.version.partition(".")[2])
        # Policies by namespace, until it changes: each new pod asks twice.
        self._policies: dict[str, NamespacePolicy] = {}
        context.storage.cache(NAMESPACES).subscribers[self._forget] = None

    def check(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Refuse a pod that violates the enforced level, and a namespace with invalid labels.

        Raises:
            StatusError: 403 for a pod, 422 for a namespace.
        """
        if attributes.kind is NAMESPACES:
            _check_labels(obj, NO_POLICY)
        elif attributes.kind is PODS and self._policies.get(attributes.namespace) is not NO_POLICY:
            self._enforce(attributes, obj)

    def check_update(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest) -> None:
        """Refuse a pod with another image that violates the enforced level, and new invalid labels.

        Raises:
            StatusError: 403 for a pod, 422 for a namespace.
        """
        if attributes.kind is PODS:
            if _has_new_image(obj["spec"], old["spec"]):
                self._enforce(attributes, obj)
        elif attributes.kind is NAMESPACES:
            _check_labels(obj, policy_of(old["metadata"].get("labels") or {}))

    def _enforce(self, attributes: AdmissionAttributes, pod: Manifest) -> None:
        level = self._policy(attributes.namespace).enforce
        if level.name != PRIVILEGED and (found := violations(level, pod["metadata"], pod["spec"], self._newest)):
            why = f'violates PodSecurity "{level}": {_joined(found)}'
            raise forbidden(PODS.type, pod["metadata"]["name"], why)

    def warnings(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest | None) -> list[str]:
        """Return the violations of the level that a namespace warns about, in a pod or in the template of a workload.

        A namespace that enforces a level that it did not enforce before is held against its pods.
        """
        kind = attributes.kind
        if kind is NAMESPACES:
            return [] if old is None else self._warn_of_pods(obj, old)
        if self._policies.get(attributes.namespace) is NO_POLICY:
            return []
        level = self._policy(attributes.namespace).warn
        if level.name == PRIVILEGED:
            return []
        if kind is PODS and old is not None and not _has_new_image(obj["spec"], old["spec"]):
            return []
        template = obj
        for step in _TEMPLATES.get((kind.type.api_version, kind.type.kind), ()):
            template = template.get(step) or {}
        if not template:
            return []
        found = violations(level, template.get("metadata") or {}, template.get("spec") or {}, self._newest)
        return [f'would violate PodSecurity "{level}": {_joined(found)}'] if found else []

    def _policy(self, namespace: str) -> NamespacePolicy:
        known = self._policies.get(namespace)
        if known is not None:
            return known
        found = self._storage.get(NAMESPACES, "", namespace)
        if found is None:
            return NO_POLICY
        policy = self._policies[namespace] = policy_of(found.metadata.labels)
        return policy

    def _forget(self, change: Change) -> None:
        self._policies.pop(change.record.metadata.name, None)

    def _warn_of_pods(self, namespace: Manifest, old: Manifest) -> list[str]:
        new_level = policy_of(namespace["metadata"].get("labels") or {}).enforce
        old_level = policy_of(old["metadata"].get("labels") or {}).enforce
        is_relaxed = new_level.version == old_level.version and new_level.rank <= old_level.rank
        if new_level.name == PRIVILEGED or is_relaxed:
            return []
        name = namespace["metadata"]["name"]
        pods = _one_of_each_owner_first(self._storage.cache(PODS).select(name))
        found: dict[str, list[str]] = {}
        for pod in pods[:_MOST_PODS]:
            manifest = pod.manifest()
            broken = violations(new_level, manifest["metadata"], manifest["spec"], self._newest)
            reasons = ", ".join(one.reason for one in broken)
            if reasons:
                found.setdefault(reasons, []).append(pod.metadata.name)
        texts = []
        if len(pods) > _MOST_PODS:
            words = f"the first {_MOST_PODS} of {len(pods)} existing pods"
            texts.append(f"new PodSecurity enforce level only checked against {words}")
        if found:
            texts.append(f'existing pods in namespace "{name}" violate the new PodSecurity enforce level "{new_level}"')
        return texts + sorted(f"{_counted(sorted(names))}: {reasons}" for reasons, names in found.items())


def _check_labels(namespace: Manifest, old: NamespacePolicy) -> None:
    errors = policy_of(namespace["metadata"].get("labels") or {}).errors
    if errors and errors != old.errors:
        raise invalid("Namespace", "", namespace["metadata"]["name"], list(errors))


def _joined(found: Iterable[object]) -> str:
    return ", ".join(str(one) for one in found)


def _has_new_image(new: Manifest, old: Manifest) -> bool:
    """Return whether an update of a pod changes an image; such updates are evaluated again."""
    images = [[[one.get("image") for one in spec.get(member) or ()] for member in _CONTAINERS] for spec in (new, old)]
    return images[0] != images[1]


def _one_of_each_owner_first(pods: Iterable[Record]) -> list[Record]:
    """Return the pods, behind the others those of an owner that an earlier pod has, too: they are probably alike."""
    first: list[Record] = []
    others: list[Record] = []
    owners: set[str] = set()
    for pod in pods:
        owner = next((one.uid for one in pod.metadata.owner_references if one.controller), None)
        (others if owner in owners else first).append(pod)
        if owner is not None:
            owners.add(owner)
    return first + others


def _counted(names: list[str]) -> str:
    more = len(names) - 1
    return names[0] + (f" (and {more} other pod{'s' if more > 1 else ''})" if more else "")
