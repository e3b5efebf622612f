"""Fields of new objects that the server adds: default classes, topology labels of nodes, tolerations and taints.

Claims without a StorageClass and Ingresses without an IngressClass get the default one. Several defaults are allowed:
the newest counts, of equally old ones the first by name. Pods get the labels of their node for zone and region,
which the downward API shows to them.

Source: kubernetes/plugin/pkg/admission/storage/storageclass/setdefault/admission.go;
plugin/pkg/admission/network/defaultingressclass/admission.go; pkg/volume/util/storageclass.go, GetDefaultClass;
plugin/pkg/admission/{podtopologylabels,defaulttolerationseconds,nodetaint}/admission.go.
"""

from collections.abc import Iterable

from kcr_devcluster.apiserver.kinds.catalogue import CLAIMS, NODES, PODS
from kcr_devcluster.apiserver.kinds.pods.defaults import tolerate_eviction
from kcr_devcluster.apiserver.kinds.served import kind_named
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionStep
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.apiserver.storage.storage import Storage

_STORAGE_CLASSES = kind_named("storage.k8s.io/v1", "StorageClass")
_INGRESSES = kind_named("networking.k8s.io/v1", "Ingress")
_INGRESS_CLASSES = kind_named("networking.k8s.io/v1", "IngressClass")
_DEFAULT_STORAGE = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DEFAULT_INGRESS = ("ingressclass.kubernetes.io/is-default-class",)
_CLAIM_CLASS = "volume.beta.kubernetes.io/storage-class"
_INGRESS_CLASS = "kubernetes.io/ingress.class"
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_SIMULATED = "kcr.dev/simulated"
TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def newest_default(classes: Iterable[Record], annotations: Iterable[str]) -> str:
    """Return the name of the default class, `""` where there is none.

    Args:
        classes: All classes.
        annotations: The annotations of which one with the value `true` makes a class the default.
    """
    names = tuple(annotations)
    defaults = sorted(
        (one.metadata for one in classes if any(one.metadata.annotations.get(name) == "true" for name in names)),
        key=lambda metadata: metadata.name,
    )
    newest = sorted(defaults, key=lambda metadata: str(metadata.creation_timestamp), reverse=True)
    return newest[0].name if newest else ""


def _says_class(obj: Manifest, annotation: str, field: str) -> bool:
    return annotation in (obj["metadata"].get("annotations") or {}) or (obj.get("spec") or {}).get(field) is not None


def _set_class(obj: Manifest, field: str, name: str) -> None:
    if name:
        obj["spec"] = {**(obj.get("spec") or {}), field: name}


class DefaultStorageClass(AdmissionStep):
    """Sets the StorageClass of claims; the class `""` asks for none."""

    kinds = (CLAIMS,)

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Set the class of a new claim that names none."""
        if not _says_class(obj, _CLAIM_CLASS, "storageClassName"):
            classes = self._storage.cache(_STORAGE_CLASSES).records.values()
            _set_class(obj, "storageClassName", newest_default(classes, _DEFAULT_STORAGE))


class DefaultIngressClass(AdmissionStep):
    """Sets the IngressClass of Ingresses."""

    kinds = (_INGRESSES,)

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Set the class of a new Ingress that names none."""
        if not _says_class(obj, _INGRESS_CLASS, "ingressClassName"):
            classes = self._storage.cache(_INGRESS_CLASSES).records.values()
            _set_class(obj, "ingressClassName", newest_default(classes, _DEFAULT_INGRESS))


def add_topology_labels(storage: Storage, metadata: Manifest, node: str) -> None:
    """Add the labels of a node to the metadata of a pod; labels that the pod has stay as they are.

    Args:
        storage: The objects.
        metadata: Of the pod; changed in place.
        node: The name of the node; one that does not exist has no labels.
    """
    record = storage.get(NODES, "", node)
    labels = record.metadata.labels if record is not None else {}
    found = {name: labels[name] for name in TOPOLOGY_LABELS if name in labels}
    if found:
        metadata["labels"] = {**found, **(metadata.get("labels") or {})}


class DefaultTolerationSeconds(AdmissionStep):
    """Adds the tolerations of evictions to pods, before webhooks see them."""

    kinds = (PODS,)

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Add the tolerations that a new pod does not have."""
        tolerate_eviction(obj)


class TaintNodesByCondition(AdmissionStep):
    """Keeps pods off new nodes until a controller finds them ready; the cluster's own are, as soon as they register."""

    kinds = (NODES,)

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Add the taint of a node that is not ready, unless it is there."""
        taints = obj["spec"].get("taints") or []
        is_own = _SIMULATED in (obj["metadata"].get("annotations") or {})
        if not is_own and all((one.get("key"), one.get("effect")) != tuple(_NOT_READY.values()) for one in taints):
            obj["spec"]["taints"] = [*taints, dict(_NOT_READY)]


class PodTopologyLabels(AdmissionStep):
    """Labels pods that are created on a node; those that the scheduler binds are labelled with the binding."""

    kinds = (PODS,)

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Add the labels of the node of a new pod."""
        if obj["spec"].get("nodeName"):
            add_topology_labels(self._storage, obj["metadata"], obj["spec"]["nodeName"])
