"""RuntimeClass admission: a pod names an existing class, and has the overhead and scheduling of that class.

Source: kubernetes/plugin/pkg/admission/runtimeclass/admission.go, Admit and Validate.
"""

from kcr_devcluster.apiserver.kinds.catalogue import PODS
from kcr_devcluster.apiserver.kinds.served import kind_named
from kcr_devcluster.apiserver.protocol.gotexts import quoted
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.protocol.names import path_segment
from kcr_devcluster.apiserver.protocol.responses import StatusError, forbidden
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionStep

_CLASSES = kind_named("node.k8s.io/v1", "RuntimeClass")


class RuntimeClassAdmission(AdmissionStep):
    """Sets the overhead, node selector and tolerations of new pods from their RuntimeClass."""

    kinds = (PODS,)

    def admit_prepared(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Set overhead, node selector and tolerations of a new pod; objects of other kinds are left alone.

        Raises:
            StatusError: 403, there is no such class, or the pod contradicts it.
        """
        if attributes.kind is not PODS:
            return
        spec = obj["spec"]
        name = spec.get("runtimeClassName")
        if name is None:
            return
        if not name:
            raise StatusError(500, "", "resource name may not be empty")
        if reasons := path_segment(name):
            raise StatusError(500, "", f"invalid resource name {quoted(name)}: [{' '.join(reasons)}]")
        record = self._storage.get(_CLASSES, "", name)
        if record is None:
            raise _rejected(obj, f'RuntimeClass "{name}" not found')
        found = record.manifest()
        self._set_overhead(obj, (found.get("overhead") or {}).get("podFixed"))
        self._set_scheduling(obj, found.get("scheduling") or {})

    def check(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Refuse a new pod with an overhead that no RuntimeClass gives it.

        Raises:
            StatusError: 403.
        """
        if attributes.kind is not PODS or obj["spec"].get("overhead") is None:
            return
        record = self._storage.get(_CLASSES, "", obj["spec"].get("runtimeClassName") or "")
        if record is None or record.manifest().get("overhead") is None:
            raise _rejected(obj, "Pod Overhead set without corresponding RuntimeClass defined Overhead")

    def _set_overhead(self, pod: Manifest, overhead: Manifest | None) -> None:
        given = pod["spec"].get("overhead")
        if overhead is None:
            return
        if given and not semantic_equal(given, overhead):
            raise _rejected(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        pod["spec"]["overhead"] = dict(overhead)

    def _set_scheduling(self, pod: Manifest, scheduling: Manifest) -> None:
        spec = pod["spec"]
        labels = scheduling.get("nodeSelector") or {}
        selector = spec.get("nodeSelector") or {}
        for key, value in labels.items():
            if selector.setdefault(key, value) != value:
                raise forbidden(
                    PODS.type, pod["metadata"]["name"],
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )  # fmt: skip
        if selector:
            spec["nodeSelector"] = selector
        tolerations = spec.get("tolerations") or []
        missing = [one for one in scheduling.get("tolerations") or () if one not in tolerations]
        if missing:
            spec["tolerations"] = [*tolerations, *missing]


def _rejected(pod: Manifest, why: str) -> StatusError:
    return forbidden(PODS.type, pod["metadata"]["name"], f"pod rejected: {why}")
