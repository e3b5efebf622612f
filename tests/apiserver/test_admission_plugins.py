"""Small plugins of the default admission chain: default classes, sizes of claims, topology labels, volumes in use.

Source: kubernetes/plugin/pkg/admission/{storage,network,podtopologylabels}/**/admission_test.go;
pkg/controller/volume/pvcprotection/pvc_protection_controller_test.go.
"""

from typing import Any

import pytest

from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import Api, pod

pytestmark = pytest.mark.kcr_virtual
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
INGRESS_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
PODS = "/api/v1/namespaces/default/pods"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def storage_class(name: str, **annotations: str) -> dict[str, Any]:
    given = {DEFAULT: annotations["default"]} if "default" in annotations else {}
    return {"metadata": {"name": name, "annotations": given}, "provisioner": "a.io/b"}


def claim(name: str = "c", storage: str = "1Gi", **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"metadata": {"name": name}, "spec": {**wanted, **spec}}


def volume(name: str) -> dict[str, Any]:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    return {"metadata": {"name": name}, "spec": spec}


def with_claim(name: str, claim_name: str, **spec: Any) -> dict[str, Any]:
    made = pod(name)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    return {**made, "spec": {**made["spec"], "volumes": volumes, **spec}}


async def test_newest_default_class_is_the_class_of_a_claim(api: Api, kcr_clock: VirtualClock) -> None:
    assert "storageClassName" not in (await api.post(CLAIMS, claim("none")))["spec"]
    await api.post(CLASSES, storage_class("first", default="true"))
    await api.post(CLASSES, storage_class("other", default="false"))
    assert (await api.post(CLAIMS, claim("one")))["spec"]["storageClassName"] == "first"
    await kcr_clock.advance(10)
    await api.post(CLASSES, storage_class("z", default="true"))
    await api.post(CLASSES, storage_class("y", default="true"))
    assert (await api.post(CLAIMS, claim("two")))["spec"]["storageClassName"] == "y"


async def test_claim_that_names_a_class_or_none_keeps_it(api: Api) -> None:
    await api.post(CLASSES, storage_class("first", default="true"))
    assert (await api.post(CLAIMS, claim("empty", storageClassName="")))["spec"]["storageClassName"] == ""
    assert (await api.post(CLAIMS, claim("named", storageClassName="x")))["spec"]["storageClassName"] == "x"
    old = claim("old")
    old["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "x"}
    assert "storageClassName" not in (await api.post(CLAIMS, old))["spec"]


async def test_ingress_gets_the_default_class(api: Api) -> None:
    ingress = {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}
    annotations = {"ingressclass.kubernetes.io/is-default-class": "true"}
    body = {"metadata": {"name": "nginx", "annotations": annotations}, "spec": {"controller": "a.io/b"}}
    await api.post(INGRESS_CLASSES, body)
    made = await api.post(INGRESSES, {"metadata": {"name": "a"}, **ingress})
    assert made["spec"]["ingressClassName"] == "nginx"
    metadata = {"name": "b", "annotations": {"kubernetes.io/ingress.class": "other"}}
    assert "ingressClassName" not in (await api.post(INGRESSES, {"metadata": metadata, **ingress}))["spec"]


async def bound(api: Api, **spec: Any) -> dict[str, Any]:
    """Make a claim that is bound."""
    await api.post(CLAIMS, claim(**spec))
    made: dict[str, Any] = await api.patch(f"{CLAIMS}/c/status", {"status": {"phase": "Bound"}})
    return made


async def test_bound_claim_grows_where_its_class_allows_it(api: Api) -> None:
    await api.post(CLASSES, {**storage_class("big"), "allowVolumeExpansion": True})
    made = await bound(api, storageClassName="big")
    made["spec"]["resources"]["requests"]["storage"] = "2Gi"
    assert (await api.put(f"{CLAIMS}/c", made))["spec"]["resources"]["requests"]["storage"] == "2Gi"


@pytest.mark.parametrize("name", ["small", "missing", ""])
async def test_claim_does_not_grow_where_its_class_forbids_it(api: Api, name: str) -> None:
    await api.post(CLASSES, storage_class("small"))
    made = await bound(api, storageClassName=name)
    made["spec"]["resources"]["requests"]["storage"] = "2Gi"
    reply = await api.call("PUT", f"{CLAIMS}/c", made)
    assert (reply.status, reply.body["message"]) == (
        403,
        'persistentvolumeclaims "c" is forbidden: only dynamically provisioned pvc can be resized and the storageclass '
        "that provisions the pvc must support resize",
    )


async def node(api: Api) -> None:
    await api.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": {ZONE: "a", REGION: "b", "other": "c"}}})


async def test_bound_pod_gets_the_topology_of_its_node(api: Api) -> None:
    await node(api)
    await api.post(PODS, pod("p", labels={REGION: "mine"}))
    await api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}})
    labels = (await api.get(f"{PODS}/p"))["metadata"]["labels"]
    assert (labels[ZONE], labels[REGION], "other" in labels) == ("a", "mine", False)


async def test_pod_that_is_created_on_a_node_gets_its_topology(api: Api) -> None:
    await node(api)
    made = pod("p")
    made["spec"]["nodeName"] = "n"
    assert (await api.post(PODS, made))["metadata"]["labels"] == {ZONE: "a", REGION: "b"}
    made = pod("q")
    made["spec"]["nodeName"] = "unknown"
    assert "labels" not in (await api.post(PODS, made))["metadata"]


async def test_server_without_controllers_protects_no_volumes(api: Api) -> None:
    assert "finalizers" not in (await api.post(CLAIMS, claim()))["metadata"]
    await api.delete(f"{CLAIMS}/c")
    assert (await api.call("GET", f"{CLAIMS}/c")).status == 404


@pytest.mark.collects
async def test_claim_stays_while_a_pod_on_a_node_uses_it(api: Api, kcr_clock: VirtualClock) -> None:
    made = await api.post(CLAIMS, claim())
    assert made["metadata"]["finalizers"] == [CLAIM_PROTECTION]
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    for name in ("p", "q"):
        await api.post(PODS, with_claim(name, "c", nodeName="n"))
    await api.post(PODS, with_claim("pending", "c"))
    await api.delete(f"{CLAIMS}/c")
    await kcr_clock.advance(60)
    assert "deletionTimestamp" in (await api.get(f"{CLAIMS}/c"))["metadata"]
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    await kcr_clock.advance(60)
    assert (await api.call("GET", f"{CLAIMS}/c")).status == 200
    await api.delete(f"{PODS}/q", {"gracePeriodSeconds": 0})
    await kcr_clock.advance(1)
    assert (await api.call("GET", f"{CLAIMS}/c")).status == 404


@pytest.mark.collects
async def test_unused_claims_go_with_their_namespace(api: Api, kcr_clock: VirtualClock) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    await api.post("/api/v1/namespaces/team/persistentvolumeclaims", claim())
    await api.delete("/api/v1/namespaces/team")
    await kcr_clock.advance(60)
    assert (await api.call("GET", "/api/v1/namespaces/team")).status == 404


@pytest.mark.collects
async def test_other_finalizers_of_a_claim_stay(api: Api, kcr_clock: VirtualClock) -> None:
    held = claim()
    held["metadata"]["finalizers"] = ["a.io/b"]
    assert (await api.post(CLAIMS, held))["metadata"]["finalizers"] == ["a.io/b", CLAIM_PROTECTION]
    await api.delete(f"{CLAIMS}/c")
    await kcr_clock.advance(1)
    assert (await api.get(f"{CLAIMS}/c"))["metadata"]["finalizers"] == ["a.io/b"]


@pytest.mark.collects
async def test_volume_stays_while_it_is_bound(api: Api, kcr_clock: VirtualClock) -> None:
    assert (await api.post(VOLUMES, volume("v")))["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    await api.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Bound"}})
    await api.delete(f"{VOLUMES}/v")
    await kcr_clock.advance(60)
    assert (await api.call("GET", f"{VOLUMES}/v")).status == 200
    await api.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Released"}})
    await kcr_clock.advance(1)
    assert (await api.call("GET", f"{VOLUMES}/v")).status == 404


@pytest.mark.collects
async def test_attributes_class_stays_while_a_claim_names_it(api: Api, kcr_clock: VirtualClock) -> None:
    classes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    made = await api.post(classes, {"metadata": {"name": "gold"}, "driverName": "a.io", "parameters": {"a": "b"}})
    assert made["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    await api.post(CLAIMS, claim(volumeAttributesClassName="gold"))
    await api.delete(f"{classes}/gold")
    await kcr_clock.advance(60)
    assert (await api.call("GET", f"{classes}/gold")).status == 200
    await api.delete(f"{CLAIMS}/c")
    await kcr_clock.advance(1)
    assert (await api.call("GET", f"{classes}/gold")).status == 404


@pytest.mark.collects
async def test_attributes_class_goes_when_a_claim_has_changed_to_another(api: Api, kcr_clock: VirtualClock) -> None:
    classes = "/apis/storage.k8s.io/v1/volumeattributesclasses"
    await api.post(classes, {"metadata": {"name": "gold"}, "driverName": "a.io", "parameters": {"a": "b"}})
    await api.post(CLAIMS, claim())
    await api.patch(f"{CLAIMS}/c/status", {"status": {"currentVolumeAttributesClassName": "gold"}})
    await api.delete(f"{classes}/gold")
    await kcr_clock.advance(60)
    assert (await api.call("GET", f"{classes}/gold")).status == 200
    await api.patch(f"{CLAIMS}/c/status", {"status": {"currentVolumeAttributesClassName": "silver"}})
    await kcr_clock.advance(1)
    assert (await api.call("GET", f"{classes}/gold")).status == 404


async def test_new_node_is_tainted_until_it_is_found_ready(api: Api) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    for name, spec, taints in (
        ("a", {}, [taint]),
        ("b", {"taints": [{"key": "x", "effect": "NoExecute"}]}, [{"key": "x", "effect": "NoExecute"}, taint]),
        ("c", {"taints": [taint]}, [taint]),
    ):
        made = await api.post("/api/v1/nodes", {"metadata": {"name": name}, "spec": spec})
        assert made["spec"]["taints"] == taints
