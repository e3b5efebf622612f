"""The versions of Kubernetes that can be served, and what differs between them beside kinds and fields.

Kinds and fields of each version are in the table of `apiserver.schema.builtin`.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

KubernetesVersion = Literal["1.36", "1.37"]
# The oldest first.
VERSIONS: tuple[KubernetesVersion, ...] = get_args(KubernetesVersion)
DEFAULT: KubernetesVersion = "1.36"


class Traits(NamedTuple):
    """How the API server of a version behaves.

    Attributes:
        gangs_by_form: Whether the form of a Job makes it a gang, as with `scheduling.k8s.io/v1alpha2`; otherwise
            `spec.scheduling` does, as with v1beta1. Source: KEP-5547, KEP-6089.
        strategies: Options of the strategies of kinds, by the names of the kinds in messages.
        printers: The names of columns in tables, by the same names.
    """

    gangs_by_form: bool
    strategies: Mapping[str, Mapping[str, bool]] = {}
    printers: Mapping[str, str] = {}


_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
TRAITS: Mapping[KubernetesVersion, Traits] = {
    "1.36": Traits(gangs_by_form=True),
    "1.37": Traits(
        gangs_by_form=False,
        strategies={
            # apiextensions-apiserver/pkg/apiserver/schema/cel/model/schemas.go, and
            # pkg/registry/customresourcedefinition/strategy.go.
            _DEFINITIONS: {"caps_names": True, "warns_of_sets": True},
            # CHANGELOG-1.37, #138228.
            "horizontalpodautoscalers.autoscaling": {"has_generation": True},
            # CHANGELOG-1.37, #139466: the gate MaxUnavailableStatefulSet is on.
            "statefulsets.apps": {"keeps_max_unavailable": True},
        },
        # apiextensions-apiserver/pkg/registry/customresourcedefinition/tableconvertor.
        printers={_DEFINITIONS: "definitions"},
    ),
}


# Fields of 1.37 whose feature gates are off by default: they are documented, and no object keeps them. That of a gate
# without a description is alpha as all new fields of stable types are. `spec.scheduling` of Jobs is kept with its gate.
# Source: the descriptions in the published OpenAPI; the markers +featureGate in k8s.io/api/*/v1/types.go;
# community/contributors/devel/sig-architecture/api_changes.md, "Alpha, Beta, and Stable Versions".
_OWNED = ("user", "defaultUser")  # AtomicWriteVolumeUserFields
DISABLED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("core.v1.ClusterTrustBundleProjection", "core.v1.ConfigMapVolumeSource", "core.v1.DownwardAPIVolumeFile",
         "core.v1.DownwardAPIVolumeSource", "core.v1.KeyToPath", "core.v1.PodCertificateProjection",
         "core.v1.ProjectedVolumeSource", "core.v1.SecretVolumeSource", "core.v1.ServiceAccountTokenProjection"),
        _OWNED,
    ),
    "authentication.v1.TokenRequestSpec": ("attestations",),  # APIServerWebhookAuthenticationToken, KEP-6060
    "core.v1.EmptyDirVolumeSource": ("mode",),  # EmptyDirVolumeMode
    "core.v1.GRPCAction": ("mode",),  # GRPCContainerProbeTLS
    "core.v1.HTTPGetAction": ("protocol",),  # H2CContainerProbe
    "core.v1.NodeAllocatableResourceClaimStatus": ("mapping", "overhead"),  # DRANodeAllocatableResources
    "core.v1.NodeSpec": ("podPreemptionPolicy",),  # InPlacePodVerticalScalingSchedulerPreemption
    "core.v1.PersistentVolumeClaimStatus": ("healthStatus",),  # CSIVolumeHealth
    "core.v1.PodSpec": ("evictionResponders",),  # EvictionRequestAPI
    "core.v1.PodStatus": ("volumeHealth",),  # CSIVolumeHealth
    "core.v1.VolumeMount": ("bindMountOptions",),  # VolumeBindMountOptions
    "resource.v1.Device": ("nodeAllocatableResources",),  # DRANodeAllocatableResources
    "resource.v1.DeviceRequestAllocationResult": ("skipNodeOperations",),  # DRAOptionalNodeOperations
    "resource.v1.ResourceSliceSpec": ("partitionTypeAttribute", "skipNodeOperations"),  # DRAPartitionableDevicesType
    "storage.v1.CSINode": ("status",),  # CSIVolumeHealth
}  # fmt: skip
