"""Valid objects of built-in kinds with all sorts of fields in them, by kind, without metadata."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

# Of jane, made once: what is drawn from these objects is the same in every process.
CERTIFICATE_REQUEST = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISk1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RWFtRnVaVEJaTUJNR0J5cUdTTT"
    "Q5QWdFR0NDcUdTTTQ5QXdFSApBMElBQk1BQlJjZXB5aHNaZVZ1d1RjaWYrWnA2L0NNZ3FOb1I5SS84b2NVcitucWl3YWZwbEowaXpNWkdscnBw"
    "CjdGNWhERWlCaHVZN2xHYjkweWkvTVlNalpMNmdBREFLQmdncWhrak9QUVFEQWdOSUFEQkZBaUEzV1FsTEZWcXoKbURhdlJmMDFqWFpFWkVmUH"
    "FxVVFvNXphZGNDZW9nbnord0loQUw1NWtRMkQ3UW5WR01wSkxUZnQ5RzJTMzR1VgpMSkR4aU1rczE4bGphYXB1Ci0tLS0tRU5EIENFUlRJRklD"
    "QVRFIFJFUVVFU1QtLS0tLQo="
)
PROBE = {"httpGet": {"path": "/x", "port": "web", "httpHeaders": [{"name": "h", "value": "v"}]}, "periodSeconds": 7}
POD_SPEC = {
    "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "nodeSelector": {"b": "2", "a": ""},
    "securityContext": {"runAsUser": 0, "runAsNonRoot": False, "sysctls": [{"name": "net.a", "value": "1"}]},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
        "podAffinityTerm": {"topologyKey": "t", "labelSelector": {"matchExpressions": [
            {"key": "a", "operator": "In", "values": ["b", ""]}]}}}]}},
    "containers": [{
        "name": "c", "image": "busybox", "command": ["sh"], "args": ["-c", ""], "tty": True, "stdin": False,
        "ports": [{"name": "web", "containerPort": 80, "hostPort": 0}], "livenessProbe": PROBE,
        "startupProbe": {"tcpSocket": {"port": 80}}, "readinessProbe": {"exec": {"command": ["true"]}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 0}}},
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": 1}},
        "env": [{"name": "A", "value": ""},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}}],
        "volumeMounts": [{"name": "e", "mountPath": "/e", "readOnly": False, "subPath": "x"}],
    }],
    "volumes": [{"name": "e", "emptyDir": {"sizeLimit": "0.5Gi"}}, {"name": "m", "configMap": {"name": "m",
        "items": [{"key": "a", "path": "b", "mode": 0}]}}, {"name": "p", "projected": {"sources": [
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}}],
}  # fmt: skip
METADATA = {
    "labels": {"b": "", "a": "1"}, "annotations": {"a.io/b": "\u00fc\n"}, "finalizers": ["a.io/b"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": False}],
}  # fmt: skip
TEMPLATE = {"metadata": {"labels": {"a": "1"}}, "spec": {**POD_SPEC, "restartPolicy": "Always"}}
SELECTOR = {"matchLabels": {"a": "1"}}
JOB = {"parallelism": 0, "suspend": True, "backoffLimitPerIndex": 0, "completionMode": "Indexed", "completions": 2,
       "template": {"spec": POD_SPEC}}  # fmt: skip
CLAIM: Mapping[str, Any] = {
    "metadata": {"name": "v"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
RBAC = "rbac.authorization.k8s.io"
RULE = {
    "operations": ["CREATE", "UPDATE"],
    "apiGroups": ["apps", ""],
    "apiVersions": ["v1"],
    "resources": ["pods/status"],
}
MATCHED = {"resourceRules": [{**RULE, "resourceNames": ["a"], "resources": ["pods"], "scope": "Namespaced"}],
           "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}  # fmt: skip
CONDITIONS = [{"name": "not-a-node", "expression": "!('system:nodes' in request.userInfo.groups)"}]
WEBHOOK = {"name": "a.example.io", "sideEffects": "None", "admissionReviewVersions": ["v1", "v1beta1"], "rules": [RULE],
           "clientConfig": {"caBundle": "", "service": {"namespace": "default", "name": "s", "path": "/a"}},
           "objectSelector": SELECTOR, "matchConditions": CONDITIONS}  # fmt: skip
VALID_OBJECTS: Mapping[str, Mapping[str, Any]] = {
    "MutatingAdmissionPolicy": {"spec": {
        "matchConstraints": MATCHED, "reinvocationPolicy": "Never",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "two", "expression": "1 + 1"}], "matchConditions": CONDITIONS, "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression":
                "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}]}},
    "MutatingAdmissionPolicyBinding": {"spec": {
        "policyName": "a", "paramRef": {"name": "p", "namespace": "default", "parameterNotFoundAction": "Deny"}}},
    "MutatingWebhookConfiguration": {"webhooks": [{**WEBHOOK, "reinvocationPolicy": "IfNeeded"}]},
    "Namespace": {"spec": {"finalizers": ["kubernetes", "a.io/b"]}},
    "ValidatingAdmissionPolicy": {"spec": {
        "matchConstraints": MATCHED, "failurePolicy": "Ignore", "matchConditions": CONDITIONS,
        "variables": [{"name": "labels", "expression": "object.metadata.?labels.orValue({})"}],
        "validations": [{"expression": "'a' in variables.labels", "message": "no a", "reason": "Forbidden",
                         "messageExpression": "'no a in ' + object.metadata.name"}],
        "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}]}},
    "ValidatingAdmissionPolicyBinding": {"spec": {
        "policyName": "a", "validationActions": ["Deny", "Audit"], "matchResources": MATCHED,
        "paramRef": {"selector": SELECTOR, "parameterNotFoundAction": "Allow"}}},
    "ValidatingWebhookConfiguration": {"webhooks": [{**WEBHOOK, "timeoutSeconds": 1}, {
        **WEBHOOK, "name": "b.example.io", "failurePolicy": "Ignore", "matchPolicy": "Exact",
        "clientConfig": {"url": "https://127.0.0.1:9443/b"}}]},
    "ConfigMap": {"data": {"b": "", "a": "1"}, "binaryData": {"c": "AP8="}, "immutable": False},
    "Event": {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}, "reason": "R", "type": "Normal",
              "source": {"component": "c"}, "firstTimestamp": "2026-01-01T00:00:00Z", "count": 1},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1500m"}}]}},
    "Node": {"spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "a", "value": "", "effect": "NoExecute"}]},
             "status": {"capacity": {"cpu": "4"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}},
    "Service": {"spec": {"type": "LoadBalancer", "selector": {"a": ""}, "externalIPs": ["10.0.0.1"],
                         "ports": [{"port": 80, "targetPort": "web"}], "sessionAffinity": "ClientIP"}},
    "Pod": {"spec": POD_SPEC},
    "Job": {"spec": JOB},
    "CronJob": {"spec": {"schedule": "@hourly", "suspend": False, "startingDeadlineSeconds": 0,
                         "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": JOB}}},
    "DaemonSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE, "minReadySeconds": 0}},
    "Ingress": {"spec": {"ingressClassName": "c", "tls": [{"hosts": ["a.io"], "secretName": "s"}], "rules": [{
        "host": "*.a.io", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {
            "service": {"name": "s", "port": {"number": 80}}}}]}}]}},
    "IngressClass": {"spec": {"controller": "a.io/b", "parameters": {"kind": "K", "name": "n", "apiGroup": "a.io"}}},
    "NetworkPolicy": {"spec": {"podSelector": {}, "egress": [{"ports": [{"port": "web"}, {"port": 1, "endPort": 2}],
        "to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/9"]}}]}], "ingress": [{}]}},
    "PodDisruptionBudget": {"spec": {"minAvailable": "50%", "selector": SELECTOR}},
    "HorizontalPodAutoscaler": {"spec": {
        "maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"}, "behavior": {"scaleDown": {}},
        "metrics": [{"type": "Pods", "pods": {"metric": {"name": "q"}, "target": {
            "type": "AverageValue", "averageValue": "0.5"}}}]}},
    "Deployment": {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0, "paused": True,
                            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}}},
    "ReplicaSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0}},
    "StatefulSet": {"spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "s",
                             "volumeClaimTemplates": [CLAIM]}},
    "ReplicationController": {"spec": {"selector": {"a": "1"}, "template": TEMPLATE}},
    "PodTemplate": {"template": TEMPLATE},
    "PersistentVolumeClaim": {"spec": {**CLAIM["spec"], "storageClassName": "", "volumeName": "v"}},
    "PersistentVolume": {"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                                  "hostPath": {"path": "/x"}}},
    "StorageClass": {"provisioner": "a.io/b", "parameters": {"a": ""}, "allowVolumeExpansion": False},
    "CSIDriver": {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}},
    "VolumeAttachment": {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"}}},
    "ResourceQuota": {"spec": {"hard": {"pods": "5", "limits.cpu": "500m"}, "scopes": ["NotTerminating"]}},
    "PriorityClass": {"value": -5, "globalDefault": False, "preemptionPolicy": "Never"},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "name": "p"}}],
                               "ports": [{"port": 80, "name": ""}]}]},
    "EndpointSlice": {"addressType": "IPv4", "ports": [{"port": 80, "name": ""}], "endpoints": [
        {"addresses": ["10.0.0.1"], "conditions": {"ready": False}, "hints": {"forZones": [{"name": "z"}]}}]},
    "CertificateSigningRequest": {"spec": {
        "request": CERTIFICATE_REQUEST, "usages": ["client auth", "any"],
        "signerName": "example.com/signer", "expirationSeconds": 600}},
    "ClusterRole": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
                              {"verbs": ["*"], "nonResourceURLs": ["/metrics"]}],
                    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": ""}}]}},
    "FlowSchema": {"spec": {"priorityLevelConfiguration": {"name": "p"}, "rules": [{
        "subjects": [{"kind": "User", "user": {"name": "u"}}],
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}]}]}},
    "ResourceSlice": {"spec": {"driver": "gpu.ex.io", "nodeName": "n1",
                               "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}},
    "PodCertificateRequest": {"spec": {
        "signerName": "example.com/signer", "podName": "p", "podUID": "u", "serviceAccountName": "s",
        "serviceAccountUID": "v", "nodeName": "n1", "nodeUID": "w", "stubPKCS10Request": "YWJj"}},
    "StorageVersionMigration": {"spec": {"resource": {"group": "apps", "resource": "deployments"}}},
    "RoleBinding": {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"},
                    "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "default"}]},
    "ClusterRoleBinding": {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"},
                           "subjects": [{"kind": "User", "name": "u", "apiGroup": RBAC}]},
}  # fmt: skip


def valid_object(kind: str, name: str = "a") -> dict[str, Any]:
    """Return a valid object of a kind, which a test may change."""
    return {"metadata": {"name": name}, **deepcopy(dict(VALID_OBJECTS[kind]))}
