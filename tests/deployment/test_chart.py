"""The chart renders as its values say, into what an API server takes."""

import copy
import json
from collections.abc import Iterator, Mapping
from itertools import chain
from random import Random
from typing import Any

import pytest
import yaml
from click.core import ParameterSource

from kcr.app.fields import fields_of, text_of
from kcr.app.options import PluginOptions, ProgramOptions
from kcr.app.plugins import choose_to_run
from kcr.cli.run import command
from kcr_devcluster.apiserver.pod_security.policies import Level, violations
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.charts import (
    NEEDS_HELM,
    OPERATOR,
    documents,
    install,
    manifests,
    of_kind,
)  # fmt: skip
from tools.chart import CHART, INSTALL, install_manifests, render

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())
MATCH = {"matchLabels": {"app": "x"}}
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ include "kcr.fullname" . }}-made', namespace: '{{ .Release.Namespace }}'}
"""
# Every value differs from its default in one of these at least.
EVERYTHING: dict[str, Any] = {
    "nameOverride": "jobs", "fullnameOverride": "batch", "controllers": ["job", "ttl", "my.module:setup"],
    "commonLabels": {"team": "batch"}, "takeOver": True, "watchNamespace": "team", "watchNamespaces": ["other"],
    "workers": 7, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "50%"}},
    "revisionHistoryLimit": 3, "deploymentAnnotations": {"a": "b"},
    "featureGates": {"GenericWorkload": True, "WorkloadWithJob": True},
    "kubeApi": {"qps": 20.5, "burst": 40}, "logFormat": "console", "logLevel": "debug", "replicas": 3,
    "eventsApi": "auto",
    "leaderElection": {"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "3s"},
    "image": {
        "repository": "registry.example/kcr", "digest": "sha256:" + "0" * 64, "pullPolicy": "Always",
        "pullSecrets": [{"name": "pull"}],
    },
    "imagePullSecrets": [{"name": "other-pull"}],
    "serviceAccount": {"name": "runner", "annotations": {"a": "b"}, "automount": True},
    "rbac": {"extraRules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]},
    "probes": {
        "port": 9091,
        "liveness": {
            "initialDelaySeconds": 16, "periodSeconds": 21, "timeoutSeconds": 6, "failureThreshold": 4,
            "successThreshold": 1, "terminationGracePeriodSeconds": 20,
        },
        "readiness": {
            "initialDelaySeconds": 2, "periodSeconds": 6, "timeoutSeconds": 6, "failureThreshold": 4,
            "successThreshold": 2,
        },
    },
    "metrics": {
        "port": 9090, "service": {"annotations": {"a": "b"}}, "secure": True, "certSecret": "kcr-metrics-certs",
        "serviceMonitor": {"enabled": True, "interval": "15s", "scrapeTimeout": "5s", "labels": {"prometheus": "main"}},
        "prometheusRule": {
            "enabled": True, "labels": {"a": "b"}, "runbookURLBase": "https://wiki.example/kcr/",
            "extraRules": [{"alert": "A", "expr": "vector(1)"}],
        },
        "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "2", "more": "x"}},
    },
    "podDisruptionBudget": {"maxUnavailable": "50%"},
    "networkPolicy": {"enabled": True, "apiServerPorts": [6443], "metricsFrom": [{"namespaceSelector": MATCH}]},
    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    "podSecurityContext": {
        "runAsNonRoot": False, "runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "seccompProfile": {"type": "Unconfined"},
    },
    "securityContext": {
        "allowPrivilegeEscalation": True, "readOnlyRootFilesystem": False, "capabilities": {"drop": ["NET_RAW"]},
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": MATCH},
        {"maxSkew": 2, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
    ],
    "priorityClassName": "system-cluster-critical", "terminationGracePeriodSeconds": 60, "nodeSelector": {"a": "true"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": MATCH, "topologyKey": "zone"},
    ]}},
    "podAnnotations": {"a": "1"}, "podLabels": {"b": "2"},
    "extraArgs": ["--leader-elect-resource-namespace=kcr-system"], "extraEnv": [{"name": "TZ", "value": "1"}],
    "extraVolumes": [{"name": "tmp", "emptyDir": {}}], "extraVolumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    "volumes": [{"name": "var", "emptyDir": {}}], "volumeMounts": [{"name": "var", "mountPath": "/var"}],
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": "team"}},
        TEMPLATE,
    ],
}  # fmt: skip
SETS = {
    "everything": EVERYTHING,
    "bare": {
        "replicas": 1, "leaderElection": {"enabled": False}, "metrics": {"enabled": False}, "image": {"tag": "edge"},
        "serviceAccount": {"create": False, "name": "mine"},
    },
    "no-roles": {"rbac": {"create": False}, "podDisruptionBudget": {"enabled": False}},
    "self-signed": {"metrics": {"secure": True, "serviceMonitor": {"enabled": True}}},
    "sharded": {"sharding": {"shards": 8}},
    "selected": {"namespaceSelector": "team=blue", "sharding": {"shards": 8}},
    "elsewhere": {"namespaceOverride": "ops", "rbac": {"namespaced": True}, "networkPolicy": {"enabled": True}},
    "probes": {
        "livenessProbe": {"timeoutSeconds": 9, "exec": {"command": ["true"]}}, "readinessProbe": {"timeoutSeconds": 8},
        "startupProbe": {"failureThreshold": 30, "periodSeconds": 2},
    },
    "pod-monitor": {
        "metrics": {"podMonitor": {"enabled": True, "interval": "15s", "scrapeTimeout": "5s", "labels": {"a": "b"}}},
    },
    "own-controllers": {"controllers": ["shop.controller:setup"]},
    "alerts-without-election": {
        "replicas": 1, "leaderElection": {"enabled": False}, "metrics": {"prometheusRule": {"enabled": True}},
    },
}  # fmt: skip

# Values that are options of `kcr run`. The pod has no terminal, so its format of logs has a default of its own.
OF_OPTIONS: Mapping[tuple[str, ...], str] = {
    ("takeOver",): "take_over", ("watchNamespace",): "namespace", ("workers",): "workers",
    ("kubeApi", "qps"): "kube_api_qps", ("kubeApi", "burst"): "kube_api_burst", ("logLevel",): "log_level",
    ("eventsApi",): "events_api",
    ("leaderElection", "leaseDuration"): "leader_elect_lease_duration",
    ("leaderElection", "renewDeadline"): "leader_elect_renew_deadline",
    ("leaderElection", "retryPeriod"): "leader_elect_retry_period",
}  # fmt: skip
# A pod needs none of these, or they are for `extraArgs`.
LEFT_TO_ARGUMENTS = {
    "kubeconfig", "context", "exec_plugins", "dry_run", "metrics_cert_name", "metrics_cert_key", "ready_file",
    "leader_elect_resource_namespace", "max_connections",
    # kcr's own controllers have no webhooks.
    *(name for name in ProgramOptions.__struct_fields__ if name.startswith("webhook_")),
}  # fmt: skip

pytestmark = NEEDS_HELM


def leaves(values: Mapping[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, *path, name)
        else:
            yield (*path, name)


def without(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The values but one."""
    left = copy.deepcopy(dict(values))
    inner = left
    for name in path[:-1]:
        inner = inner[name]
    del inner[path[-1]]
    return left


def properties(schema: Mapping[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """The values that a schema names."""
    for name, inner in schema["properties"].items():
        if "properties" in inner:
            yield from properties(inner, *path, name)
        else:
            yield (*path, name)


def test_each_value_is_set_by_a_test() -> None:
    used = set(chain.from_iterable(leaves(values) for values in SETS.values()))
    # What other charts share is not read.
    named = {path for path in properties(SCHEMA) if path != ("global",)}
    assert not [path for path in {*leaves(DEFAULTS), *named} if not any(there[: len(path)] == path for there in used)]


# The largest set is rendered once for each of its many values.
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("probes", "selected") else pytest.mark.soak) for name in SETS]
)
def test_each_value_has_an_effect(name: str) -> None:
    whole = render(yaml.safe_dump(SETS[name]))
    for path in leaves(SETS[name]):
        try:
            assert render(yaml.safe_dump(without(SETS[name], path))) != whole, path
        except RuntimeError:
            continue  # refused: the others need it


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "name",
    ["default", "everything", *(pytest.param(name, marks=pytest.mark.soak) for name in SETS if name != "everything")],
)
async def test_server_takes_what_is_rendered(name: str) -> None:
    found = manifests(SETS.get(name, {}))
    async with EmbeddedCluster(random=Random(0), runtime=None, authorization="rbac", kinds=[OPERATOR]) as cluster:
        await install(cluster.client, found)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"replica": 3}, "additional properties 'replica' not allowed"),
        ({"metrics": {"serviceMonitor": {"enable": True}}}, "additional properties 'enable' not allowed"),
        ({"controllers": ["cronjobs"]}, "does not match pattern"),
        ({"controllers": []}, "minItems"),
        ({"logLevel": "trace"}, "value must be one of"),
        ({"image": {"digest": "sha256:0"}}, "does not match pattern"),
        ({"controllers": ["ttl"]}, "controllers: ttl cannot run beside the cluster's own: set takeOver=true"),
        ({"leaderElection": {"enabled": False}}, "set leaderElection.enabled=true, sharding.shards=8 or replicas=1"),
        ({"sharding": {"shards": 6}}, "value must be one of"),
        ({"sharding": {"shards": 8}, "fullnameOverride": "a" * 39}, "set a fullnameOverride of at most 38 characters"),
        ({"featureGates": {"WorkloadWithJob": True}}, "WorkloadWithJob needs GenericWorkload=true"),
        ({"metrics": {"certSecret": "a"}}, "certSecret needs metrics.secure=true"),
        ({"metrics": {"enabled": False, "dashboard": {"enabled": True}}}, "need metrics.enabled=true"),
        ({"metrics": {"enabled": False, "podMonitor": {"enabled": True}}}, "need metrics.enabled=true"),
        ({"metrics": {"secure": True, "podMonitor": {"enabled": True}}}, "set metrics.podMonitor.enabled=false"),
        ({"metrics": {"secure": True}, "rbac": {"namespaced": True}}, "set rbac.namespaced=false or metrics.secure"),
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "'not' failed"),
        ({"watchNamespaces": ["a", "a"]}, "are equal"),
        ({"watchNamespace": "a", "namespaceSelector": "team=blue"}, "namespaceSelector: it chooses the namespaces"),
        ({"strategy": {"type": "Never"}}, "value must be one of"),
        ({"startupProbe": {"periodSecond": 1}}, "additional properties 'periodSecond' not allowed"),
    ],
    ids=str,
)
def test_wrong_value_is_refused_with_its_name(values: dict[str, Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        manifests(values)


def test_each_option_is_set_by_a_value_or_left_to_arguments() -> None:
    unset = {*PluginOptions.__struct_fields__, *ProgramOptions.__struct_fields__}
    # Leader election and sharding exclude each other.
    for values in (EVERYTHING, SETS["selected"], SETS["own-controllers"]):
        (deployment,) = of_kind(manifests(values), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        given = command.make_context("run", list(container["args"]))
        unset = {name for name in unset if given.get_parameter_source(name) is not ParameterSource.COMMANDLINE}
    # The last of them is an argument of the test's values.
    assert unset == LEFT_TO_ARGUMENTS - {"leader_elect_resource_namespace"}


@pytest.mark.parametrize("path", OF_OPTIONS, ids=".".join)
def test_value_has_bounds_and_default_of_its_option(path: tuple[str, ...]) -> None:
    (field,) = (
        field for kind in (PluginOptions, ProgramOptions) for field in fields_of(kind) if field.name == OF_OPTIONS[path]
    )
    schema, default = SCHEMA, DEFAULTS
    for name in path:
        schema, default = schema["properties"][name], default[name]
    assert default == text_of(field.default)
    assert tuple(schema.get("enum", ())) == field.choices
    assert (f"x>={schema['minimum']}" if "minimum" in schema else "") == field.range


def test_pod_may_do_nothing_on_its_node() -> None:
    (deployment,) = of_kind(manifests(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip


# The largest set names a controller that is not installed.
@pytest.mark.parametrize("name", sorted(SETS.keys() - {"everything"}))
def test_command_line_takes_the_arguments(name: str) -> None:
    (deployment,) = of_kind(manifests(SETS[name]), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    params = command.make_context("run", list(container["args"])).params
    assert (params["leader_elect"] or bool(params["shards"])) is (deployment["spec"]["replicas"] > 1)


@pytest.mark.parametrize(
    ("controllers", "has_default"),
    [
        pytest.param(["shop.controller:setup"], False, id="own"),
        pytest.param(["job", "shop.controller:setup"], True, id="both"),
        pytest.param(["job"], True, id="built-in"),
    ],
)
def test_list_of_controllers_is_the_whole_list(controllers: list[str], has_default: bool) -> None:
    (deployment,) = of_kind(manifests({"controllers": controllers}), "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    given = PluginOptions(controllers=tuple(controllers), no_controllers="--no-controllers" in arguments)
    assert given.no_controllers is not has_default
    assert choose_to_run(given) == tuple(controllers)


def test_readers_of_protected_metrics_verify_the_certificate_there_is() -> None:
    tls = {}
    for name in ("everything", "self-signed"):
        (monitor,) = of_kind(manifests(SETS[name]), "ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        assert (endpoint["scheme"], endpoint["bearerTokenFile"].rpartition("/")[2]) == ("https", "token")
        tls[name] = endpoint["tlsConfig"]
    ca = {"secret": {"name": "kcr-metrics-certs", "key": "ca.crt"}}
    assert tls["everything"] == {"serverName": "batch-metrics.kcr-system.svc", "ca": ca}
    assert tls["self-signed"] == {"insecureSkipVerify": True}


def test_role_is_in_each_watched_namespace() -> None:
    found = manifests(
        {"watchNamespace": "a", "watchNamespaces": ["b", "a"], "leaderElection": {"enabled": False}, "replicas": 1}
    )
    for kind in ("Role", "RoleBinding"):
        assert [one["metadata"]["namespace"] for one in of_kind(found, kind)] == ["a", "b"]
    assert not of_kind(found, "ClusterRole")
    (deployment,) = of_kind(found, "Deployment")
    assert "--namespace=a,b" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_selected_namespaces_have_a_cluster_role_that_may_be_bound_in_each() -> None:
    for is_namespaced in (False, True):
        found = manifests({"namespaceSelector": "team=blue", "rbac": {"namespaced": is_namespaced}})
        bound = [one["roleRef"]["name"] for one in of_kind(found, "ClusterRoleBinding")]
        assert [one["metadata"]["name"] for one in of_kind(found, "ClusterRole")] == ["kcr", "kcr-cluster"]
        assert bound == (["kcr-cluster"] if is_namespaced else ["kcr", "kcr-cluster"])
        (deployment,) = of_kind(found, "Deployment")
        args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        assert [one for one in args if "--namespace" in one] == ["--namespace-selector=team=blue"]


def test_namespaced_roles_limit_kcr_to_the_namespace_of_its_objects() -> None:
    found = manifests(SETS["elsewhere"])
    assert {one["metadata"]["namespace"] for one in found} == {"ops"}
    (deployment,) = of_kind(found, "Deployment")
    assert "--namespace=ops" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_common_labels_are_on_all_objects_and_in_no_selector() -> None:
    found = manifests({"commonLabels": {"team": "batch"}})
    assert all(one["metadata"]["labels"]["team"] == "batch" for one in found)
    (deployment,) = of_kind(found, "Deployment")
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "batch"
    assert "team" not in deployment["spec"]["selector"]["matchLabels"]


def test_own_probe_keeps_the_times_of_the_chart() -> None:
    (deployment,) = of_kind(manifests(SETS["probes"]), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"] == {**DEFAULTS["probes"]["liveness"], **SETS["probes"]["livenessProbe"]}
    asked = {"httpGet": {"path": "/readyz", "port": "probes"}, "timeoutSeconds": 8}
    assert container["readinessProbe"] == {**DEFAULTS["probes"]["readiness"], **asked}
    asked = {"httpGet": {"path": "/livez", "port": "probes"}}
    assert container["startupProbe"] == {**asked, **SETS["probes"]["startupProbe"]}


def test_pod_monitor_gives_the_series_the_job_of_the_alerts() -> None:
    values = {"metrics": {"podMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}}}
    found = manifests(values)
    (monitor,), (rule,) = of_kind(found, "PodMonitor"), of_kind(found, "PrometheusRule")
    ((relabeling,),) = [endpoint["relabelings"] for endpoint in monitor["spec"]["podMetricsEndpoints"]]
    assert relabeling["targetLabel"] == "job"
    assert f'job="{relabeling["replacement"]}"' in rule["spec"]["groups"][0]["rules"][0]["expr"]


def test_manifests_without_helm_are_the_default_rendering() -> None:
    assert INSTALL.read_text() == install_manifests(), "run `python -m tools.chart`"
    assert of_kind(documents(INSTALL.read_text()), "Deployment")


def test_pod_satisfies_the_restricted_standard() -> None:
    (deployment,) = of_kind(documents(INSTALL.read_text()), "Deployment")
    template = deployment["spec"]["template"]
    assert violations(Level("restricted"), template["metadata"], template["spec"]) == []


def test_two_releases_share_no_name() -> None:
    one, other = (
        {(found["kind"], found["metadata"]["name"]) for found in documents(render(release=name))} for name in ("a", "b")
    )
    assert not one & other
