"""What kinds are called in paths and by kubectl: facts that Kubernetes' published schema does not have.

One kind per line: apiVersion, kind, plural, scope, short names, categories, traits; `-` for none. Traits are `status`
and `scale` (there is a subresource of that name), `generation` (it is kept) and `any-name` (names need only be fit for
a path).

Source: kubernetes/pkg/registry/*/*/{storage/storage,strategy}.go; for the kinds that 1.37 adds, the paths in its
published OpenAPI.
"""

from collections.abc import Mapping

_KINDS = """
v1 ConfigMap configmaps namespaced cm - -
v1 Endpoints endpoints namespaced ep - -
v1 Event events namespaced ev - -
v1 LimitRange limitranges namespaced limits - -
v1 Namespace namespaces cluster ns - status
v1 Node nodes cluster no - status
v1 PersistentVolume persistentvolumes cluster pv - status
v1 PersistentVolumeClaim persistentvolumeclaims namespaced pvc - status
v1 Pod pods namespaced po all status,generation
v1 PodTemplate podtemplates namespaced - - generation
v1 ReplicationController replicationcontrollers namespaced rc all scale,status,generation
v1 ResourceQuota resourcequotas namespaced quota - status
v1 Secret secrets namespaced - - -
v1 Service services namespaced svc all status
v1 ServiceAccount serviceaccounts namespaced sa - -
apps/v1 ControllerRevision controllerrevisions namespaced - - -
apps/v1 DaemonSet daemonsets namespaced ds all status,generation
apps/v1 Deployment deployments namespaced deploy all scale,status,generation
apps/v1 ReplicaSet replicasets namespaced rs all scale,status,generation
apps/v1 StatefulSet statefulsets namespaced sts all scale,status,generation
autoscaling/v2 HorizontalPodAutoscaler horizontalpodautoscalers namespaced hpa all status
batch/v1 CronJob cronjobs namespaced cj all status,generation
batch/v1 Job jobs namespaced - all status,generation
certificates.k8s.io/v1 ClusterTrustBundle clustertrustbundles cluster - - -
certificates.k8s.io/v1 PodCertificateRequest podcertificaterequests namespaced - - status
coordination.k8s.io/v1 Lease leases namespaced - - -
discovery.k8s.io/v1 EndpointSlice endpointslices namespaced - - generation
flowcontrol.apiserver.k8s.io/v1 FlowSchema flowschemas cluster - - status,generation
flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration prioritylevelconfigurations cluster - - status,generation
networking.k8s.io/v1 Ingress ingresses namespaced ing - status,generation
networking.k8s.io/v1 IngressClass ingressclasses cluster - - generation
networking.k8s.io/v1 NetworkPolicy networkpolicies namespaced netpol - generation
node.k8s.io/v1 RuntimeClass runtimeclasses cluster - - -
policy/v1 PodDisruptionBudget poddisruptionbudgets namespaced pdb - status,generation
rbac.authorization.k8s.io/v1 ClusterRole clusterroles cluster - - any-name
rbac.authorization.k8s.io/v1 ClusterRoleBinding clusterrolebindings cluster - - any-name
rbac.authorization.k8s.io/v1 Role roles namespaced - - any-name
rbac.authorization.k8s.io/v1 RoleBinding rolebindings namespaced - - any-name
resource.k8s.io/v1 DeviceClass deviceclasses cluster - - generation
resource.k8s.io/v1 DeviceTaintRule devicetaintrules cluster - - status
resource.k8s.io/v1 ResourceClaim resourceclaims namespaced - - status
resource.k8s.io/v1 ResourceClaimTemplate resourceclaimtemplates namespaced - - -
resource.k8s.io/v1 ResourceSlice resourceslices cluster - - generation
scheduling.k8s.io/v1 PriorityClass priorityclasses cluster pc - generation
storage.k8s.io/v1 CSIDriver csidrivers cluster - - -
storage.k8s.io/v1 CSINode csinodes cluster - - -
storage.k8s.io/v1 CSIStorageCapacity csistoragecapacities namespaced - - -
storage.k8s.io/v1 StorageClass storageclasses cluster sc - -
storage.k8s.io/v1 VolumeAttachment volumeattachments cluster - - status
storage.k8s.io/v1 VolumeAttributesClass volumeattributesclasses cluster vac - -
storagemigration.k8s.io/v1 StorageVersionMigration storageversionmigrations cluster - - status
"""
# The kinds of admissionregistration.k8s.io, which differ in plural and traits only.
_ADMISSION = """
MutatingAdmissionPolicy mutatingadmissionpolicies generation
MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings generation
MutatingWebhookConfiguration mutatingwebhookconfigurations generation
ValidatingAdmissionPolicy validatingadmissionpolicies status,generation
ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings generation
ValidatingWebhookConfiguration validatingwebhookconfigurations generation
"""


def _names(text: str) -> list[str]:
    return [] if text == "-" else text.split(",")


def _entry(plural: str, scope: str, short_names: str, categories: str, traits: str) -> dict[str, object]:
    facts: dict[str, object] = {"plural": plural, "namespaced": scope == "namespaced"}
    lists = {"shortNames": _names(short_names), "categories": _names(categories), "traits": _names(traits)}
    return facts | {name: values for name, values in lists.items() if values}


# By apiVersion and kind.
KINDS: Mapping[str, Mapping[str, object]] = {
    f"admissionregistration.k8s.io/v1 {kind}": _entry(plural, "cluster", "-", "api-extensions", traits)
    for kind, plural, traits in (line.split() for line in _ADMISSION.strip().splitlines())
} | {
    f"{api_version} {kind}": _entry(*rest)
    for api_version, kind, *rest in (line.split() for line in _KINDS.strip().splitlines())
}
