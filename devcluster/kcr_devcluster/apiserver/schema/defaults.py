"""Constant defaults of built-in types: facts that Kubernetes' published schema does not have.

An absent field of a type gets the default in this table; `{}` is an object with its own defaults. The strategies of the
kinds set the defaults that depend on other fields. Fields of status whose default is a zero value are those that Go
always writes, and that clients' models insist on.

Source: kubernetes/pkg/apis/{admissionregistration,apps,autoscaling,batch,core,flowcontrol,scheduling,
storage}/*/defaults.go; k8s.io/api/*/v1/types.go.
"""

from collections.abc import Mapping
from typing import Any

_FILE_MODE = {"defaultMode": 0o644}
_CONTAINER = {
    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
}  # fmt: skip
_ISCSI = {"iscsiInterface": "default"}
_RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_ROLLING_UPDATE = {"type": "RollingUpdate"}
_MATCHED = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_WEBHOOK = {**_MATCHED, "failurePolicy": "Fail", "timeoutSeconds": 10}
_ANY_SCOPE = {"scope": "*"}

DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "admissionregistration.v1.MatchResources": _MATCHED,
    "admissionregistration.v1.MutatingAdmissionPolicy": {"spec": {}},
    "admissionregistration.v1.MutatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    "admissionregistration.v1.NamedRuleWithOperations": _ANY_SCOPE,
    "admissionregistration.v1.RuleWithOperations": _ANY_SCOPE,
    "admissionregistration.v1.ServiceReference": {"port": 443},
    "admissionregistration.v1.ValidatingAdmissionPolicy": {"spec": {}, "status": {}},
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration.v1.ValidatingWebhook": _WEBHOOK,
    "apiextensions.v1.CustomResourceDefinitionCondition": {"type": "", "status": ""},
    "apps.v1.ControllerRevision": {"revision": 0},
    "apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10, "updateStrategy": {}},
    "apps.v1.DaemonSetUpdateStrategy": _ROLLING_UPDATE,
    "apps.v1.Deployment": {"spec": {}},
    "apps.v1.DeploymentSpec": {
        "replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}, "template": {},
    },
    "apps.v1.DeploymentStrategy": _ROLLING_UPDATE,
    "apps.v1.ReplicaSet": {"spec": {}},
    "apps.v1.ReplicaSetSpec": {"replicas": 1, "template": {}},
    "apps.v1.StatefulSet": {"spec": {}},
    "apps.v1.StatefulSetSpec": {
        "replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady", "updateStrategy": {},
        "serviceName": "",
    },
    "apps.v1.StatefulSetUpdateStrategy": _ROLLING_UPDATE,
    "autoscaling.v2.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "batch.v1.CronJob": {"spec": {}, "status": {}},
    "batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
        "jobTemplate": {},
    },
    "batch.v1.Job": {"spec": {}, "status": {}},
    "batch.v1.JobCondition": {"type": "", "status": ""},
    "batch.v1.JobSpec": {"template": {}},
    "batch.v1.JobTemplateSpec": {"metadata": {}, "spec": {}},
    "coordination.v1.Lease": {"spec": {}},
    "core.v1.AzureDiskVolumeSource": {
        "cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False,
    },
    "core.v1.ConfigMapVolumeSource": _FILE_MODE,
    "core.v1.Container": _CONTAINER,
    "core.v1.ContainerPort": {"protocol": "TCP"},
    "core.v1.ContainerStatus": {
        "state": {}, "lastState": {}, "name": "", "ready": False, "restartCount": 0, "image": "", "imageID": "",
    },
    "core.v1.DaemonEndpoint": {"Port": 0},
    "core.v1.DownwardAPIVolumeSource": _FILE_MODE,
    "core.v1.Event": {
        "reportingComponent": "", "reportingInstance": "", "source": {},
    },
    "core.v1.GRPCAction": {"service": ""},
    "core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core.v1.HostPathVolumeSource": {"type": ""},
    "core.v1.ISCSIPersistentVolumeSource": _ISCSI,
    "core.v1.ISCSIVolumeSource": _ISCSI,
    "core.v1.Namespace": {"spec": {}, "status": {}},
    "core.v1.Node": {"spec": {}, "status": {}},
    "core.v1.NodeDaemonEndpoints": {"kubeletEndpoint": {}},
    "core.v1.AttachedVolume": {"name": "", "devicePath": ""},
    "core.v1.NodeCondition": {"type": "", "status": ""},
    "core.v1.NodeStatus": {"daemonEndpoints": {}, "nodeInfo": {}},
    "core.v1.NodeSystemInfo": dict.fromkeys((
        "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion",
        "machineID", "operatingSystem", "osImage", "systemUUID",
    ), ""),
    "core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core.v1.PersistentVolumeClaim": {"spec": {}},
    "core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "core.v1.Pod": {"spec": {}, "status": {}},
    "core.v1.PodSpec": {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler",
    },
    "core.v1.PodTemplateSpec": {"metadata": {}, "spec": {}},
    "core.v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core.v1.ContainerImage": {"names": None},
    "core.v1.LimitRange": {"spec": {}},
    "core.v1.LimitRangeSpec": {"limits": None},
    "core.v1.EphemeralContainer": _CONTAINER,
    "core.v1.PodTemplate": {"template": {}},
    "core.v1.ProjectedVolumeSource": {**_FILE_MODE, "sources": None},
    "core.v1.RBDPersistentVolumeSource": _RBD,
    "core.v1.RBDVolumeSource": _RBD,
    "core.v1.ReplicationController": {"spec": {}},
    "core.v1.ReplicationControllerSpec": {"replicas": 1},
    "core.v1.ResourceFieldSelector": {"divisor": "0"},
    "core.v1.ResourceQuota": {"spec": {}, "status": {}},
    "core.v1.Secret": {"type": "Opaque"},
    "core.v1.SecretVolumeSource": _FILE_MODE,
    "core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core.v1.ServicePort": {"protocol": "TCP"},
    "core.v1.TypedLocalObjectReference": {"apiGroup": None},
    "core.v1.TypedObjectReference": {"apiGroup": None},
    "discovery.v1.Endpoint": {"conditions": {}},
    "core.v1.Sysctl": dict.fromkeys(("name", "value"), ""),
    "apps.v1.StatefulSetOrdinals": {"start": 0},
    "meta.v1.OwnerReference": dict.fromkeys(("apiVersion", "kind", "name", "uid"), ""),
    "policy.v1.PodDisruptionBudget": {"spec": {}},
    "discovery.v1.EndpointSlice": {"endpoints": None, "ports": None},
    "autoscaling.v2.HorizontalPodAutoscalerStatus": {"currentMetrics": None},
    "rbac.v1.ClusterRole": {"rules": None},
    "rbac.v1.Role": {"rules": None},
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "flowcontrol.v1.FlowSchemaSpec": {"matchingPrecedence": 1000},
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    "flowcontrol.v1.QueuingConfiguration": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
    "scheduling.v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "scheduling.v1beta1.PodGroupSpec": {"disruptionMode": {"single": {}}},
    "storage.v1.CSIDriver": {"spec": {}},
    "storage.v1.CSINodeDriver": {"topologyKeys": None},
    "storage.v1.CSINodeSpec": {"drivers": None},
    "storage.v1.CSIDriverSpec": {
        "attachRequired": True, "fsGroupPolicy": "ReadWriteOnceWithFSType", "podInfoOnMount": False,
        "requiresRepublish": False, "seLinuxMount": False, "storageCapacity": False,
    },
    "storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
}  # fmt: skip
