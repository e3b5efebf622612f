"""Small plugins of kube-apiserver's default admission chain: default classes, volumes in use, labels of nodes."""

from kcr_devcluster.apiserver.plugins.defaults import (
    DefaultIngressClass,
    DefaultStorageClass,
    DefaultTolerationSeconds,
    PodTopologyLabels,
    TaintNodesByCondition,
    add_topology_labels,
)
from kcr_devcluster.apiserver.plugins.volumes import PersistentVolumeClaimResize, StorageObjectInUseProtection

__all__ = [
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "PersistentVolumeClaimResize",
    "PodTopologyLabels",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
    "add_topology_labels",
]
