"""Which fields of a pod's spec have an effect with the process runtime.

`FIELDS` says it for each field of each type, from `core.v1.PodSpec` on. A field that begins to have an effect gets
`USED` instead of its `NoEffect`; if its type has fields of its own, that type gets an entry too. A test compares the
table with the schema: it names the fields and types that are missing here, and those that are here for nothing.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple


class NoEffect(NamedTuple):
    """A field that nothing here acts on, with all that is in it.

    Attributes:
        reason: Why, as a clause that follows "has no effect in kcr dev:".
        usual: Values that ask for no more than the usual behaviour, beside the default of the schema, false, and
            empty values. A list of such values is one as well.
        used_keys: The keys of a map that do have an effect; the others are named one by one where there are any.
    """

    reason: str
    usual: tuple[Any, ...] = ()
    used_keys: tuple[str, ...] = ()


Effect = Literal["used", "carried"] | NoEffect

# A component of the cluster acts on it. Fields of its type are judged in turn.
USED: Effect = "used"
# For people and clients to read, or true of processes whatever it says.
CARRIED: Effect = "carried"

_TERMS = tuple(f"{how}DuringSchedulingIgnoredDuringExecution" for how in ("preferred", "required"))
_USER = NoEffect("processes run as the current user")
_SANDBOX = NoEffect("processes run without isolation")
_WINDOWS = NoEffect("processes are not Windows containers")
_NETWORK = NoEffect("processes use the machine's network")
_VOLUMES = NoEffect("block devices are not mapped")
_MOUNTS = "mounts are private to the container"
_DEVICES = NoEffect("devices are not allocated")


def _used(*names: str) -> Mapping[str, Effect]:
    return dict.fromkeys(names, USED)


FIELDS: Mapping[str, Mapping[str, Effect]] = {
    "core.v1.PodSpec": {
        "activeDeadlineSeconds": USED,
        "affinity": USED,
        "automountServiceAccountToken": USED,
        "containers": USED,
        "dnsConfig": _NETWORK,
        "dnsPolicy": _NETWORK,
        "enableServiceLinks": CARRIED,
        "ephemeralContainers": NoEffect("ephemeral containers are not run"),
        "hostAliases": USED,
        "hostIPC": CARRIED,
        "hostNetwork": USED,
        "hostPID": CARRIED,
        "hostUsers": _USER._replace(usual=(True,)),
        "hostname": USED,
        "hostnameOverride": USED,
        "imagePullSecrets": NoEffect("images are not pulled"),
        "initContainers": USED,
        "nodeName": USED,
        "nodeSelector": USED,
        "os": USED,
        "overhead": USED,
        "preemptionPolicy": USED,
        # It follows from the class.
        "priority": CARRIED,
        "priorityClassName": USED,
        "readinessGates": USED,
        "resourceClaims": _DEVICES,
        "resources": USED,
        "restartPolicy": USED,
        "runtimeClassName": NoEffect("there is one runtime"),
        "schedulerName": USED,
        "schedulingGates": USED,
        "schedulingGroup": NoEffect("each pod is placed for itself"),
        "securityContext": USED,
        "serviceAccount": CARRIED,
        "serviceAccountName": USED,
        "setHostnameAsFQDN": NoEffect("the machine's host name stays"),
        "shareProcessNamespace": CARRIED,
        "subdomain": USED,
        "terminationGracePeriodSeconds": USED,
        "tolerations": USED,
        "topologySpreadConstraints": USED,
        "volumes": USED,
    },
    "core.v1.HostAlias": _used("hostnames", "ip"),
    "core.v1.Affinity": _used("nodeAffinity", "podAffinity", "podAntiAffinity"),
    "core.v1.NodeAffinity": _used(*_TERMS),
    "core.v1.NodeSelector": _used("nodeSelectorTerms"),
    "core.v1.NodeSelectorTerm": _used("matchExpressions", "matchFields"),
    "core.v1.NodeSelectorRequirement": _used("key", "operator", "values"),
    "core.v1.PreferredSchedulingTerm": _used("preference", "weight"),
    "core.v1.PodAffinity": _used(*_TERMS),
    "core.v1.PodAntiAffinity": _used(*_TERMS),
    "core.v1.PodAffinityTerm": _used(
        "labelSelector", "matchLabelKeys", "mismatchLabelKeys", "namespaceSelector", "namespaces", "topologyKey"
    ),
    "core.v1.WeightedPodAffinityTerm": _used("podAffinityTerm", "weight"),
    "core.v1.Toleration": _used("effect", "key", "operator", "tolerationSeconds", "value"),
    "core.v1.TopologySpreadConstraint": _used(
        "labelSelector",
        "matchLabelKeys",
        "maxSkew",
        "minDomains",
        "nodeAffinityPolicy",
        "nodeTaintsPolicy",
        "topologyKey",
        "whenUnsatisfiable",
    ),
    "meta.v1.LabelSelector": _used("matchExpressions", "matchLabels"),
    "meta.v1.LabelSelectorRequirement": _used("key", "operator", "values"),
    "core.v1.PodOS": {"name": NoEffect("processes are this machine's", usual=("linux",))},
    "core.v1.PodSchedulingGate": _used("name"),
    "core.v1.PodSecurityContext": {
        "appArmorProfile": _SANDBOX,
        "fsGroup": _USER,
        "fsGroupChangePolicy": _USER,
        "runAsGroup": _USER,
        "runAsNonRoot": _USER,
        "runAsUser": _USER,
        "seLinuxChangePolicy": _SANDBOX,
        "seLinuxOptions": _SANDBOX,
        "seccompProfile": _SANDBOX,
        "supplementalGroups": _USER,
        "supplementalGroupsPolicy": _USER,
        "sysctls": _SANDBOX,
        "windowsOptions": _WINDOWS,
    },
    "core.v1.Container": {
        **_used("args", "command", "env", "envFrom", "image", "imagePullPolicy", "name"),
        "lifecycle": USED,
        "livenessProbe": USED,
        "ports": USED,
        "readinessProbe": USED,
        "resizePolicy": NoEffect("resources are not limited"),
        "resources": USED,
        "restartPolicy": USED,
        "restartPolicyRules": USED,
        "securityContext": USED,
        "startupProbe": USED,
        "stdin": USED,
        "stdinOnce": USED,
        "terminationMessagePath": USED,
        "terminationMessagePolicy": USED,
        "tty": USED,
        "volumeDevices": _VOLUMES,
        "volumeMounts": USED,
        "workingDir": USED,
    },
    "core.v1.ContainerRestartRule": _used("action", "exitCodes"),
    "core.v1.ContainerRestartRuleOnExitCodes": _used("operator", "values"),
    "core.v1.EnvVar": _used("name", "value", "valueFrom"),
    "core.v1.EnvVarSource": {
        **_used("configMapKeyRef", "fieldRef", "resourceFieldRef", "secretKeyRef"),
        "fileKeyRef": NoEffect("the variable is empty"),
    },
    "core.v1.ConfigMapKeySelector": _used("key", "name", "optional"),
    "core.v1.SecretKeySelector": _used("key", "name", "optional"),
    "core.v1.ObjectFieldSelector": _used("apiVersion", "fieldPath"),
    "core.v1.EnvFromSource": _used("configMapRef", "prefix", "secretRef"),
    "core.v1.ConfigMapEnvSource": _used("name", "optional"),
    "core.v1.SecretEnvSource": _used("name", "optional"),
    "core.v1.ContainerPort": {
        "containerPort": CARRIED,
        # The scheduler gives each port of a node once.
        "hostIP": USED,
        "hostPort": USED,
        "name": CARRIED,
        "protocol": CARRIED,
    },
    "core.v1.ResourceRequirements": {
        "claims": _DEVICES,
        "limits": NoEffect("processes may use all of the machine", used_keys=("memory",)),
        "requests": USED,
    },
    "core.v1.SecurityContext": {
        "allowPrivilegeEscalation": _SANDBOX._replace(usual=(True,)),
        "appArmorProfile": _SANDBOX,
        "capabilities": _SANDBOX,
        "privileged": _SANDBOX,
        "procMount": _SANDBOX,
        "readOnlyRootFilesystem": _SANDBOX,
        "runAsGroup": _USER,
        "runAsNonRoot": _USER,
        "runAsUser": _USER,
        "seLinuxOptions": _SANDBOX,
        "seccompProfile": _SANDBOX,
        "windowsOptions": _WINDOWS,
    },
    "core.v1.ResourceFieldSelector": _used("containerName", "divisor", "resource"),
    "core.v1.Volume": {
        **_used("configMap", "downwardAPI", "emptyDir", "hostPath", "name", "projected", "secret"),
        # A pod with one of these stays in ContainerCreating, and an event says why.
        **dict.fromkeys(
            (
                "awsElasticBlockStore",
                "azureDisk",
                "azureFile",
                "cephfs",
                "cinder",
                "csi",
                "ephemeral",
                "fc",
                "flexVolume",
                "flocker",
                "gcePersistentDisk",
                "gitRepo",
                "glusterfs",
                "image",
                "iscsi",
                "nfs",
                "persistentVolumeClaim",
                "photonPersistentDisk",
                "portworxVolume",
                "quobyte",
                "rbd",
                "scaleIO",
                "storageos",
                "vsphereVolume",
            ),
            CARRIED,
        ),
    },
    "core.v1.VolumeMount": {
        **_used("mountPath", "name", "readOnly", "subPath", "subPathExpr"),
        "mountPropagation": NoEffect(_MOUNTS, usual=("None",)),
        "recursiveReadOnly": NoEffect(_MOUNTS, usual=("Disabled",)),
    },
    "core.v1.EmptyDirVolumeSource": {
        "medium": NoEffect("huge pages are not mounted", usual=("Memory",)),
        "sizeLimit": NoEffect("the directory may grow"),
    },
    "core.v1.HostPathVolumeSource": _used("path", "type"),
    "core.v1.ConfigMapVolumeSource": _used("defaultMode", "items", "name", "optional"),
    "core.v1.SecretVolumeSource": _used("defaultMode", "items", "optional", "secretName"),
    "core.v1.DownwardAPIVolumeSource": _used("defaultMode", "items"),
    "core.v1.DownwardAPIVolumeFile": _used("fieldRef", "mode", "path", "resourceFieldRef"),
    "core.v1.KeyToPath": _used("key", "mode", "path"),
    "core.v1.ProjectedVolumeSource": _used("defaultMode", "sources"),
    "core.v1.VolumeProjection": {
        **_used("configMap", "downwardAPI", "secret", "serviceAccountToken"),
        # As for the other volumes.
        **dict.fromkeys(("clusterTrustBundle", "podCertificate"), CARRIED),
    },
    "core.v1.ConfigMapProjection": _used("items", "name", "optional"),
    "core.v1.SecretProjection": _used("items", "name", "optional"),
    "core.v1.DownwardAPIProjection": _used("items"),
    "core.v1.ServiceAccountTokenProjection": _used("audience", "expirationSeconds", "path"),
    "core.v1.PodReadinessGate": _used("conditionType"),
    "core.v1.Lifecycle": {**_used("postStart", "preStop"), "stopSignal": NoEffect("containers end by SIGTERM")},
    "core.v1.LifecycleHandler": _used("exec", "httpGet", "sleep", "tcpSocket"),
    "core.v1.Probe": {
        **_used(
            "exec",
            "failureThreshold",
            "httpGet",
            "initialDelaySeconds",
            "periodSeconds",
            "successThreshold",
            "tcpSocket",
            "terminationGracePeriodSeconds",
            "timeoutSeconds",
        ),
        "grpc": NoEffect("there are no gRPC probes"),
    },
    "core.v1.ExecAction": _used("command"),
    "core.v1.HTTPGetAction": _used("host", "httpHeaders", "path", "port", "scheme"),
    "core.v1.HTTPHeader": _used("name", "value"),
    "core.v1.SleepAction": _used("seconds"),
    "core.v1.TCPSocketAction": _used("host", "port"),
}
