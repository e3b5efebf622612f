"""What differs between the versions of Kubernetes that the embedded server serves.

Source: the published OpenAPI of both; `kcr_devcluster/versions.py` names that of everything else.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kcr.client import Client
from kcr.client.writes import APPLY_PATCH
from kcr.errors import ApiError, BadRequestError, ConfigError, ForbiddenError, NotFoundError, ServerError
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.versions import VERSIONS, KubernetesVersion
from tests.kit.api import TABLE, Api
from tests.kit.harness import manifest
from tests.kit.policies import json_patch, matched, mutate
from tests.kit.webhooks import Webhooks
from tests.kit.webhooks import json_patch as webhook_patch

pytestmark = pytest.mark.kcr_virtual
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POD = {"containers": [{"name": "main", "image": "shop"}]}
both = pytest.mark.parametrize("version", VERSIONS)


@asynccontextmanager
async def served(version: KubernetesVersion, *, gangs: bool = False) -> AsyncIterator[Client]:
    async with EmbeddedCluster(kubernetes_version=version, gangs=gangs, runtime=None, random=Random(0)) as cluster:
        yield cluster.client


async def ask(client: Client, method: str, target: str, body: object = None) -> Any:
    kind = APPLY_PATCH if method == "PATCH" else "application/json"
    return json.loads(await client.request(method, target, json.dumps(body).encode(), content_type=kind))


def scheduled(name: str) -> dict[str, Any]:
    made = manifest(name)
    made["spec"]["scheduling"] = {"schedulingPolicy": {"basic": {}}}
    return made


@both
async def test_version_is_said_by_the_server_and_its_documents(version: KubernetesVersion) -> None:
    async with served(version) as client:
        said = await ask(client, "GET", "/version")
        document = await ask(client, "GET", "/openapi/v3/apis/batch/v1")
    assert (said["minor"], said["gitVersion"]) == (version[2:], f"v{version}.0+kcr")
    assert document["info"]["version"] == said["gitVersion"]
    fields = document["components"]["schemas"]["io.k8s.api.batch.v1.JobSpec"]["properties"]
    assert ("scheduling" in fields) == (version == "1.37")


@both
async def test_kinds_are_those_of_the_version(version: KubernetesVersion) -> None:
    async with served(version, gangs=True) as client:
        groups = {one["name"]: one for one in (await ask(client, "GET", "/apis"))["groups"]}
        certificates = await ask(client, "GET", "/apis/certificates.k8s.io/v1")
    found = {one["name"] for one in certificates["resources"]}
    later = {"clustertrustbundles", "podcertificaterequests", "podcertificaterequests/status"}
    assert found & later == (later if version == "1.37" else set())
    assert ("storagemigration.k8s.io" in groups) == (version == "1.37")
    versions = [one["version"] for one in groups["scheduling.k8s.io"]["versions"]]
    assert versions == (["v1", "v1beta1", "v1alpha3"] if version == "1.37" else ["v1", "v1alpha2"])


async def test_field_of_a_later_version_is_unknown() -> None:
    async with served("1.36", gangs=True) as client:
        with pytest.raises(BadRequestError, match=r'unknown field "spec.scheduling"'):
            await ask(client, "POST", f"{JOBS}?fieldValidation=Strict", scheduled("strict"))
        for validation in ("Warn", "Ignore"):
            made = await ask(client, "POST", f"{JOBS}?fieldValidation={validation}", scheduled(validation.lower()))
            assert "scheduling" not in made["spec"]
        with pytest.raises(ServerError, match=r"\.spec\.scheduling: field not declared in schema"):
            await ask(client, "PATCH", f"{JOBS}/applied?fieldManager=shop", scheduled("applied"))


@pytest.mark.parametrize("gangs", [True, False])
async def test_field_of_the_newest_version_is_kept_with_its_gate(*, gangs: bool) -> None:
    async with served("1.37", gangs=gangs) as client:
        made = await ask(client, "POST", f"{JOBS}?fieldValidation=Strict", scheduled("made"))
        applied = await ask(client, "PATCH", f"{JOBS}/applied?fieldManager=shop", scheduled("applied"))
    assert [one["spec"].get("scheduling") for one in (made, applied)] == [
        {"schedulingPolicy": {"basic": {}}} if gangs else None
    ] * 2


async def test_field_of_a_disabled_feature_is_known_and_not_kept() -> None:
    async with served("1.37") as client:
        spec = {**POD, "volumes": [{"name": "tmp", "emptyDir": {"mode": 448}}], "evictionResponders": [{"name": "a/b"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}, "spec": spec}
        made = await ask(client, "POST", f"{PODS}?fieldValidation=Strict", pod)
    assert made["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    assert "evictionResponders" not in made["spec"]


async def test_workload_is_one_object_in_both_versions_of_its_group() -> None:
    def place(version: str) -> str:
        return f"/apis/scheduling.k8s.io/{version}/namespaces/default/workloads"

    template = {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 2}}}
    workload = {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "Workload", "metadata": {"name": "w"}}
    async with served("1.37", gangs=True) as client:
        made = await ask(client, "POST", place("v1alpha3"), {**workload, "spec": {"podGroupTemplates": [template]}})
        read = await ask(client, "GET", f"{place('v1beta1')}/w")
        assert (made["apiVersion"], read["apiVersion"]) == (workload["apiVersion"], "scheduling.k8s.io/v1beta1")
        assert made["spec"] == read["spec"]
        assert made["metadata"]["uid"] == read["metadata"]["uid"]
        with pytest.raises(NotFoundError):
            await ask(client, "GET", place("v1alpha2"))


def definition(schema: dict[str, Any]) -> dict[str, Any]:
    names = {"plural": "shops", "kind": "Shop", "shortNames": ["sh"]}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v1beta1")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.a.dev"},
        "spec": {"group": "a.dev", "scope": "Namespaced", "names": names, "versions": versions},
    }  # fmt: skip


async def check_cost(version: KubernetesVersion, schema: dict[str, Any]) -> None:
    """Check that the rules of a schema are too expensive for versions that do not know how long names are."""
    async with served(version) as client:
        if version == "1.37":
            await ask(client, "POST", DEFINITIONS, definition(schema))
            return
        with pytest.raises(ApiError, match="estimated rule cost exceeds budget"):
            await ask(client, "POST", DEFINITIONS, definition(schema))


@both
@pytest.mark.parametrize("field", ["name", "generateName"])
@pytest.mark.parametrize("embedded", [False, True])
async def test_rules_know_how_long_names_are(version: KubernetesVersion, field: str, *, embedded: bool) -> None:
    rule = f"self.metadata.{field}.lowerAscii().contains(self.text)"
    schema: dict[str, Any] = {
        "type": "object", "properties": {"text": {"type": "string", "maxLength": 10_000}},
        "x-kubernetes-validations": [{"rule": rule}],
    }  # fmt: skip
    if embedded:
        schema = {"type": "object", "properties": {"inner": {**schema, "x-kubernetes-embedded-resource": True}}}
    await check_cost(version, schema)


@both
async def test_length_of_a_name_in_the_schema_counts_where_it_is_shorter(version: KubernetesVersion) -> None:
    name = {"type": "string", "maxLength": 5}
    rule = {"rule": "self.metadata.name.lowerAscii().contains(self.text)"}
    schema: dict[str, Any] = {
        "type": "object", "x-kubernetes-validations": [rule],
        "properties": {
            "metadata": {"type": "object", "properties": {"name": name}},
            "text": {"type": "string", "maxLength": 400_000},
        },
    }  # fmt: skip
    await check_cost(version, schema)


@both
async def test_sets_of_objects_have_a_warning(version: KubernetesVersion) -> None:
    item = {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-map-type": "atomic"}
    items = {"type": "array", "x-kubernetes-list-type": "set", "items": item}
    crd = definition({"type": "object", "properties": {"items": items}})
    async with EmbeddedCluster(kubernetes_version=version, runtime=None, random=Random(0)) as cluster:
        made = await Api(cluster.server).call("POST", DEFINITIONS, crd)
    assert made.status == 201
    warned = 'set for items of type \\"object\\" is not supported' in made.headers.get("Warning", "")
    assert warned == (version == "1.37")


@both
async def test_tables_of_definitions_have_the_columns_of_the_version(version: KubernetesVersion) -> None:
    async with EmbeddedCluster(kubernetes_version=version, runtime=None, random=Random(0)) as cluster:
        api = Api(cluster.server)
        await api.post(DEFINITIONS, definition({"type": "object"}))
        table = await api.get(f"{DEFINITIONS}/shops.a.dev", accept=TABLE)
    cells = dict(zip([one["name"] for one in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True))
    assert "Created At" in cells
    if version == "1.36":
        assert list(cells) == ["Name", "Created At"]
        return
    del cells["Created At"]
    assert cells == {
        "Name": "shops.a.dev", "Scope": "Namespaced", "Versions": "v1(storage),v1beta1", "Group": "a.dev",
        "Kind": "Shop", "ShortNames": "sh", "Established": True,
    }  # fmt: skip
    wide = [one["name"] for one in table["columnDefinitions"] if one["priority"]]
    assert wide == ["Group", "Kind", "ShortNames", "Established"]


async def test_object_of_a_kind_that_only_the_newest_version_has_is_stored() -> None:
    bundle = {
        "apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle", "metadata": {"name": "roots"},
        "spec": {"trustBundle": "-----BEGIN CERTIFICATE-----"},
    }  # fmt: skip
    async with served("1.37") as client:
        made = await ask(client, "POST", "/apis/certificates.k8s.io/v1/clustertrustbundles", bundle)
        assert made["spec"] == bundle["spec"]
    async with served("1.36") as client:
        with pytest.raises(ApiError):
            await ask(client, "POST", "/apis/certificates.k8s.io/v1/clustertrustbundles", bundle)


@both
async def test_admission_sets_fields_of_the_version_alone(version: KubernetesVersion) -> None:
    added = [{"op": "add", "path": "/spec/scheduling", "value": {"schedulingPolicy": {"basic": {}}}}]
    all_jobs = {"operations": ["CREATE"], "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"]}
    async with EmbeddedCluster(kubernetes_version=version, gangs=True, runtime=None, random=Random(0)) as cluster:
        api = Api(cluster.server)
        webhooks = Webhooks(api)
        await webhooks.add("Mutating", "schedules", lambda request: webhook_patch(*added), rules=[all_jobs])
        made = await api.post(JOBS, manifest("made"))
        assert ("scheduling" in made["spec"]) == (version == "1.37")
        text = 'JSONPatch{op: "add", path: "/spec/scheduling", value: {"schedulingPolicy": {"basic": {}}}}'
        await mutate(api, json_patch(f"[{text}]"), matchConstraints=matched("jobs", "batch"))
        reply = await api.call("POST", JOBS, manifest("mutated"))
    if version == "1.37":
        assert reply.status == 201
    else:
        assert 'unknown field "spec.scheduling"' in reply.body["message"]


STATEFUL_SETS = "/apis/apps/v1/namespaces/default/statefulsets"


def stateful_set(name: str, rolling: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": POD}
    update = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec = {"selector": {"matchLabels": labels}, "template": template, "updateStrategy": update}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


@both
@pytest.mark.parametrize(("given", "kept"), [({}, 1), ({"maxUnavailable": "50%"}, "50%")])
async def test_stateful_sets_say_how_many_pods_may_be_unavailable(
    version: KubernetesVersion, given: dict[str, Any], kept: object
) -> None:
    async with served(version) as client:
        made = await ask(client, "POST", STATEFUL_SETS, stateful_set("a", given))
    wanted = {"partition": 0, "maxUnavailable": kept} if version == "1.37" else {"partition": 0}
    assert made["spec"]["updateStrategy"]["rollingUpdate"] == wanted


@pytest.mark.parametrize("amount", [0, "0%", "101%", -1])
async def test_invalid_number_of_unavailable_pods_is_refused(amount: object) -> None:
    async with served("1.37") as client:
        with pytest.raises(ApiError, match=r"rollingUpdate\.maxUnavailable: Invalid value"):
            await ask(client, "POST", STATEFUL_SETS, stateful_set("a", {"maxUnavailable": amount}))
    async with served("1.36") as client:
        await ask(client, "POST", STATEFUL_SETS, stateful_set("a", {"maxUnavailable": amount}))


@both
@pytest.mark.parametrize("through", ["v1", "v2"])
async def test_autoscalers_have_a_generation(version: KubernetesVersion, through: str) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"}
    autoscaler = {
        "apiVersion": f"autoscaling/{through}", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "shop"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3},
    }  # fmt: skip
    place = f"/apis/autoscaling/{through}/namespaces/default/horizontalpodautoscalers"
    async with served(version) as client:
        made = await ask(client, "POST", place, autoscaler)
        made["spec"]["maxReplicas"] = 4
        changed = await ask(client, "PUT", f"{place}/shop", made)
    assert changed["metadata"].get("generation") == (2 if version == "1.37" else None)


@both
@pytest.mark.parametrize("level", ["latest", "v1.37", "v1.36"])
async def test_pod_security_knows_the_safe_sysctls_of_the_version(version: KubernetesVersion, level: str) -> None:
    labels = {
        f"pod-security.kubernetes.io/enforce{end}": value for end, value in (("", "baseline"), ("-version", level))
    }
    context = {"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat", "value": "16384"}]}
    pod = {"metadata": {"name": "a"}, "spec": {**POD, "securityContext": context}}
    async with served(version) as client:
        await ask(client, "POST", "/api/v1/namespaces", {"metadata": {"name": "safe", "labels": labels}})
        call = ask(client, "POST", "/api/v1/namespaces/safe/pods", pod)
        if version == "1.37" and level != "v1.36":
            await call
        else:
            with pytest.raises(ForbiddenError, match="forbidden sysctls"):
                await call


@both
async def test_jobs_of_a_server_with_gangs_pass_the_checks_of_all_jobs(version: KubernetesVersion) -> None:
    """Pod Security finds kinds by type, whichever strategy they have."""
    async with EmbeddedCluster(kubernetes_version=version, gangs=True, runtime=None, random=Random(0)) as cluster:
        api = Api(cluster.server)
        level = {"pod-security.kubernetes.io/warn": "restricted"}
        await api.post("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": level}})
        made = await api.call(
            "POST", "/apis/batch/v1/namespaces/strict/jobs", {**manifest("a"), "metadata": {"name": "a"}}
        )
        stateful = await api.call("POST", STATEFUL_SETS.replace("default", "strict"), stateful_set("a", {}))
    for reply in (made, stateful):
        assert "would violate PodSecurity" in reply.headers.get("Warning", "")


async def test_data_folder_is_served_as_the_same_version_or_a_newer_one(tmp_path: Path) -> None:
    def cluster(version: KubernetesVersion) -> EmbeddedCluster:
        return EmbeddedCluster(kubernetes_version=version, gangs=True, runtime=None, data_dir=tmp_path)

    async with cluster("1.36") as first:
        await Api(first.server).post(JOBS, scheduled("a"))
    for _ in range(2):
        async with cluster("1.37") as second:
            assert "scheduling" not in (await Api(second.server).get(f"{JOBS}/a"))["spec"]
    refusal = (
        "has objects of Kubernetes 1.37, and 1.36 is to be served: give --kubernetes-version 1.37, or name another"
    )
    with pytest.raises(ConfigError, match=refusal):
        cluster("1.36")
