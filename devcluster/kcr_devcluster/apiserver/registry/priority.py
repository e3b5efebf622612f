"""Priority admission: a pod's priority is that of its PriorityClass, or of the default one.

Source: kubernetes/plugin/pkg/admission/priority/admission.go, admitPod and validatePriorityClass.
"""

from kcr_devcluster.apiserver.kinds.catalogue import PODS, PRIORITY_CLASSES
from kcr_devcluster.apiserver.kinds.priority_classes import PREEMPT
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import forbidden
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionStep


class PriorityAdmission(AdmissionStep):
    """Sets the priority of new pods, and sees to it that one class at most is the default."""

    kinds = (PODS, PRIORITY_CLASSES)

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Set the priority and the preemption policy of a new pod; objects of other kinds are left alone.

        Raises:
            StatusError: 403, there is no such class, or the pod says something else than its class.
        """
        if attributes.kind is not PODS:
            return
        spec = obj["spec"]
        name = spec.get("priorityClassName", "")
        found = self._class(obj, name) if name else self._default()
        priority, policy = (0, PREEMPT) if found is None else (found.get("value", 0), found["preemptionPolicy"])
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
        if spec.setdefault("priority", priority) != priority:
            raise forbidden(
                PODS.type, obj["metadata"]["name"],
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name",
            )  # fmt: skip
        if spec.setdefault("preemptionPolicy", policy) != policy:
            raise forbidden(
                PODS.type, obj["metadata"]["name"],
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name",
            )  # fmt: skip

    def _class(self, pod: Manifest, name: str) -> Manifest:
        record = self._storage.get(PRIORITY_CLASSES, "", name)
        if record is None:
            raise forbidden(PODS.type, pod["metadata"]["name"], f"no PriorityClass with name {name} was found")
        return record.manifest()

    def check(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Refuse a second default class.

        Raises:
            StatusError: 403, another class is the default.
        """
        if attributes.kind is not PRIORITY_CLASSES or not obj.get("globalDefault"):
            return
        found, name = self._default(), obj["metadata"]["name"]
        if found is not None and found["metadata"]["name"] != name:
            why = f"PriorityClass {found['metadata']['name']} is already marked as default. Only one default can exist"
            raise forbidden(PRIORITY_CLASSES.type, name, why)

    def check_update(self, attributes: AdmissionAttributes, obj: Manifest, old: Manifest) -> None:
        """Refuse a second default class.

        Raises:
            StatusError: 403, another class is the default.
        """
        self.check(attributes, obj)

    def _default(self) -> Manifest | None:
        """Return the default class, the lowest if there are several."""
        records = self._storage.cache(PRIORITY_CLASSES).records.values()
        defaults = [record.manifest() for record in records if b'"globalDefault":true' in record.body]
        return min(defaults, key=lambda one: (one.get("value", 0), one["metadata"]["name"]), default=None)
