"""The review of requests by handlers: defaulters, validators, chains, denials and warnings."""

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.apps import Scale
from kcr.api.core import ConfigMap, Pod
from kcr.api.full import apps_v1, core_v1
from kcr.client.context import WRITE_CONTEXT
from kcr.testing import FakeManager
from tests.kit.reviews import MUTATE, VALIDATE, Website, answered, post, review, serve, website

pytestmark = pytest.mark.kcr_virtual

Default = Callable[[Any, kcr.WebhookRequest], Any]


class Defaulter:
    def __init__(self, change: Default) -> None:
        self._change = change

    async def default(self, obj: Any, request: kcr.WebhookRequest) -> Any:
        return self._change(obj, request)


class Validator:
    """Returns or raises the same for all operations; a plain function."""

    def __init__(self, outcome: object = None) -> None:
        self._outcome = outcome
        self.seen: list[Any] = []

    def _answer(self, *seen: Any) -> Any:
        self.seen.append(seen)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome

    def validate_create(self, obj: Any, request: kcr.WebhookRequest) -> Any:
        return self._answer(obj)

    async def validate_update(self, old: Any, new: Any, request: kcr.WebhookRequest) -> Any:
        return self._answer(old, new)

    def validate_delete(self, old: Any, request: kcr.WebhookRequest) -> Any:
        return self._answer(old)


def with_spec(**spec: Any) -> Default:
    return lambda obj, _: replace(obj, spec=replace(obj.spec, **spec))


async def patch_of(default: Default, manifest: Mapping[str, Any], **request: Any) -> Any:
    answer = await answered(serve(Defaulter(default)), MUTATE, review(manifest, **request))
    assert answer["allowed"]
    if "patch" not in answer:
        return []
    assert answer["patchType"] == "JSONPatch"
    return json.loads(base64.b64decode(answer["patch"]))


async def test_defaulter_patches_what_it_changes_only() -> None:  # WH-4
    patch = await patch_of(with_spec(image="nginx:2"), website())
    assert patch == [{"op": "replace", "path": "/spec/image", "value": "nginx:2"}]


async def test_defaulter_can_add_and_empty_fields() -> None:
    patch = await patch_of(with_spec(aliases=(), replicas=3), website(aliases=["a"]))
    assert patch == [
        {"op": "remove", "path": "/spec/aliases"}, {"op": "add", "path": "/spec/replicas", "value": 3}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "default",
    [
        pytest.param(lambda obj, _: None, id="none"),
        pytest.param(lambda obj, _: obj, id="the-object"),
        pytest.param(with_spec(image="nginx:1"), id="the-same-value"),
        pytest.param(with_spec(replicas=1), id="the-default-of-the-class"),
    ],
)
async def test_unchanged_object_has_no_patch(default: Default) -> None:
    assert await patch_of(default, website()) == []


async def test_map_mutated_in_place_is_in_the_patch() -> None:
    def mutate(obj: Any, _: object) -> Any:
        obj.metadata.labels["team"] = "web"
        return replace(obj)

    manifest = website()
    manifest["metadata"]["labels"] = {"a": "b"}
    assert await patch_of(mutate, manifest) == [{"op": "add", "path": "/metadata/labels/team", "value": "web"}]


async def test_defaulters_are_a_chain() -> None:  # WH-6
    def count(obj: Any, request: kcr.WebhookRequest) -> Any:
        assert json.loads(bytes(request.raw_object))["spec"]["theme"] == {"color": "blue"}
        return replace(obj, spec=replace(obj.spec, replicas=obj.spec.replicas + 1))

    webhooks = serve([Defaulter(count), Defaulter(lambda obj, _: None), Defaulter(count)])
    answer = await answered(webhooks, MUTATE, review(website(replicas=1)))
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "replace", "path": "/spec/replicas", "value": 3}]


async def test_defaulter_denies() -> None:
    def deny(obj: Any, request: kcr.WebhookRequest) -> Any:
        raise kcr.Denied("not today")

    answer = await answered(serve(Defaulter(deny)), MUTATE, review(website()))
    assert not answer["allowed"]
    assert answer["status"]["code"] == 403


async def test_defaulter_reads_the_old_object_and_is_not_called_on_delete() -> None:
    def keep_image(obj: Any, request: kcr.WebhookRequest) -> Any:
        old = request.old(Website)
        return obj if old is None else replace(obj, spec=replace(obj.spec, image=old.spec.image))

    patch = await patch_of(keep_image, website(image="b"), old=website(image="a"), operation="UPDATE")
    assert patch == [{"op": "replace", "path": "/spec/image", "value": "a"}]
    answer = await answered(serve(Defaulter(keep_image)), MUTATE, review(None, website(), "DELETE"))
    assert answer["allowed"]


async def test_pod_view_patches_a_pod_and_keeps_its_other_fields() -> None:
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "1", "lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}]},
    }  # fmt: skip

    def label(obj: Any, _: object) -> Any:
        return replace(obj, metadata=replace(obj.metadata, labels={"team": "web"}))

    def sidecar(obj: Any, _: object) -> Any:
        more = core_v1.Container(name="proxy", image="envoy")
        return replace(obj, spec=replace(obj.spec, containers=(more, *obj.spec.containers)))

    answer = await answered(serve(Defaulter(label), Pod), "/mutate--v1-pod", review(pod))
    assert json.loads(base64.b64decode(answer["patch"])) == [
        {"op": "add", "path": "/metadata/labels", "value": {"team": "web"}}
    ]
    answer = await answered(serve(Defaulter(sidecar), core_v1.Pod), "/mutate--v1-pod", review(pod))
    patch = json.loads(base64.b64decode(answer["patch"]))
    (old,) = pod["spec"]["containers"]  # type: ignore[index]
    containers = [{"name": "proxy", "image": "envoy"}, old]
    assert patch == [{"op": "replace", "path": "/spec/containers", "value": containers}]


async def test_unstructured_objects_are_reviewed() -> None:
    widget = kcr.unstructured("example.dev/v1", "Website", plural="websites")

    def grow(obj: Any, _: object) -> Any:
        return obj.changed(spec={**obj.get("spec"), "replicas": 9})

    answer = await answered(serve(Defaulter(grow), widget), MUTATE, review(website()))
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/spec/replicas", "value": 9}]


async def test_validators_get_the_objects_of_their_operation() -> None:
    validator = Validator()
    webhooks = serve(validator)
    for one in (
        review(website(image="a")),
        review(website(image="b"), website(image="a"), "UPDATE"),
        review(None, website(image="b"), "DELETE"),
    ):
        assert (await answered(webhooks, VALIDATE, one))["allowed"]
    assert [[obj.spec.image for obj in seen] for seen in validator.seen] == [["a"], ["a", "b"], ["b"]]


async def test_subresources_have_their_own_types() -> None:
    validator = Validator()
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 3}}
    webhooks = serve(validator, apps_v1.Deployment, subresource="scale", operations=("UPDATE",))
    await answered(webhooks, "/validate-apps-v1-deployment-scale", review(scale, scale, "UPDATE", subResource="scale"))
    assert validator.seen[0][1] == Scale(
        metadata=kcr.ObjectMeta(name="web"), spec=replace(Scale().spec, replicas=3), status=Scale().status
    )


async def test_exec_is_reviewed_with_its_options() -> None:
    class NoShell:
        def validate_connect(self, options: kcr.Unstructured, request: kcr.WebhookRequest) -> None:
            if options.get("command") == ["sh"]:
                raise kcr.Denied(f"no shell in {request.namespace}/{request.name} for {request.user.name}")

    options = {"apiVersion": "v1", "kind": "PodExecOptions", "command": ["sh"], "container": "a"}
    answer = await answered(
        serve(NoShell(), Pod, subresource="exec"), "/validate--v1-pod-exec",
        review(options, operation="CONNECT", subResource="exec", name="web"),
    )  # fmt: skip
    assert answer["status"]["message"] == "no shell in default/web for alice"


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        pytest.param(kcr.Denied("no"), (403, "Forbidden", "no"), id="denied"),
        pytest.param(kcr.Denied("no", field="spec.a"), (422, "Invalid", "spec.a: no"), id="field"),
        pytest.param(kcr.ConflictError(409, "Conflict", "twice"), (409, "Conflict", "twice"), id="api-error"),
        pytest.param(
            ExceptionGroup("", [kcr.Denied("a", field="a"), kcr.Denied("b", field="b")]),
            (422, "Invalid", "a: a; b: b"), id="group",
        ),
    ],
)  # fmt: skip
async def test_denial_has_code_reason_and_message(outcome: Exception, expected: tuple[int, str, str]) -> None:
    answer = await answered(serve(Validator(outcome)), VALIDATE, review(website()))
    assert not answer["allowed"]
    assert tuple(answer["status"][name] for name in ("code", "reason", "message")) == expected


async def test_refused_field_is_told_with_its_object() -> None:
    answer = await answered(serve(Validator(kcr.Denied("no", field="spec.a"))), VALIDATE, review(website()))
    details = answer["status"]["details"]
    assert (details["name"], details["group"], details["kind"]) == ("home", "example.dev", "Website")
    assert details["causes"] == [{"field": "spec.a", "message": "no", "reason": "FieldValueInvalid"}]


async def test_all_validators_run_and_their_denials_merge() -> None:  # WH-6
    chain = [Validator(kcr.Denied("a")), Validator(["take care"]), Validator(kcr.Denied("b"))]
    answer = await answered(serve(chain), VALIDATE, review(website()))
    assert answer["status"]["message"] == "a; b"
    assert answer["warnings"] == ["take care"]
    assert all(len(one.seen) == 1 for one in chain)


@pytest.mark.parametrize("outcome", [["a", "b"], ("a", "b"), iter(["a", "b"])])
async def test_warnings_reach_the_user(outcome: object) -> None:
    answer = await answered(serve(Validator(outcome)), VALIDATE, review(website()))
    assert answer["allowed"]
    assert answer["warnings"] == ["a", "b"]


async def test_one_text_is_one_warning() -> None:
    answer = await answered(serve(Validator("deprecated")), VALIDATE, review(website()))
    assert answer["warnings"] == ["deprecated"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"replicas": "three"}, "spec.replicas: Expected `int`, got `str`", id="type"),
        pytest.param({"image": None}, "spec.image: Required value", id="missing"),
    ],
)
async def test_object_that_does_not_fit_its_type_is_invalid(change: dict[str, Any], message: str) -> None:
    manifest = website()
    manifest["spec"] = {name: value for name, value in (manifest["spec"] | change).items() if value is not None}
    answer = await answered(serve(Validator()), VALIDATE, review(manifest))
    assert (answer["status"]["code"], answer["status"]["message"]) == (422, message)
    assert answer["status"]["details"]["causes"][0]["field"] == message.partition(":")[0]


async def test_review_of_another_kind_is_a_bad_request() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
    status, answer = await post(serve(Validator()), VALIDATE, review(pod))
    assert status == 400
    assert answer["message"] == "the object is a v1 Pod, and this webhook reviews example.dev/v1 Website"


async def test_operation_without_a_method_is_admitted() -> None:
    class Creates:
        def validate_create(self, obj: Any, request: kcr.WebhookRequest) -> None:
            raise kcr.Denied("no")

    assert (await answered(serve(Creates()), VALIDATE, review(None, website(), "DELETE")))["allowed"]


@pytest.mark.parametrize("is_dry_run", [False, True])
async def test_dry_run_reaches_the_client_for_the_length_of_the_review(is_dry_run: bool) -> None:  # WH-8
    manager = FakeManager()

    class Writes:
        async def validate_create(self, obj: Website, request: kcr.WebhookRequest) -> None:
            await manager.client.create(ConfigMap(metadata=kcr.ObjectMeta(name="made", namespace="default")))
            with pytest.raises(kcr.NotFoundError):
                await manager.client.delete(ConfigMap, kcr.Key("default", "gone"))

    answer = await answered(serve(Writes()), VALIDATE, review(website(), dryRun=is_dry_run))
    assert answer["allowed"], answer
    assert not WRITE_CONTEXT.get().dry_run
    assert len(await manager.client.list(ConfigMap)) == (0 if is_dry_run else 1)


def recorded_pod() -> dict[str, Any]:
    """Return a pod as Go's API server encodes it in a review: null times, empty maps, defaults."""
    return {
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"generateName": "web-", "creationTimestamp": None, "labels": {"run": "web"}},
        "spec": {
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "containers": [
                {
                    "name": "web", "image": "nginx", "resources": {}, "imagePullPolicy": "Always",
                    "terminationMessagePath": "/dev/termination-log", "ports": None, "securityContext": {},
                    "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run"}],
                }
            ],
            "restartPolicy": "Always", "securityContext": {}, "tolerations": [{"operator": "Exists"}], "priority": 0,
        },
        "status": {},
    }  # fmt: skip


@pytest.mark.parametrize("kind", [core_v1.Pod, Pod])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_pod_in_the_form_of_a_recorded_review_is_reviewed(kind: type[kcr.Resource], version: str) -> None:
    # Source of the form: the recorded reviews in sighupio/container-signature-enforcer, config/config_mocks.rego. The
    # first servers with v1beta1 sent objects without kind and apiVersion.
    document = review(recorded_pod(), requestKind=None)
    document["apiVersion"] = f"admission.k8s.io/{version}"
    if version == "v1beta1":
        del document["request"]["object"]["kind"], document["request"]["object"]["apiVersion"]

    def label(obj: Any, request: kcr.WebhookRequest) -> Any:
        return replace(obj, metadata=replace(obj.metadata, labels={**obj.metadata.labels, "seen": request.user.name}))

    status, answer = await post(serve(Defaulter(label), kind), "/mutate--v1-pod", document)
    assert (status, answer["apiVersion"]) == (200, document["apiVersion"])
    patch = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert patch == [{"op": "add", "path": "/metadata/labels/seen", "value": "alice"}]
    assert (await answered(serve(Validator(), kind), "/validate--v1-pod", document))["allowed"]


def misfit(**metadata: Any) -> dict[str, Any]:
    """Return a stored object from before its class wanted a number."""
    manifest = website(replicas="five")
    manifest["metadata"] |= metadata
    return manifest


async def test_object_that_does_not_fit_its_type_can_be_deleted() -> None:
    answer = await answered(serve(Validator(kcr.Denied("kept"))), VALIDATE, review(None, misfit(), "DELETE"))
    assert answer["allowed"]
    assert answer["warnings"] == [
        "not reviewed, because the object does not fit its type: spec.replicas: Expected `int`, got `str`"
    ]


async def test_object_that_does_not_fit_its_type_can_be_mended() -> None:
    validator = Validator()
    answer = await answered(serve(validator), VALIDATE, review(website(replicas=5), misfit(), "UPDATE"))
    assert (answer["allowed"], len(answer["warnings"])) == (True, 1)
    assert [obj.spec.replicas for (obj,) in validator.seen] == [5], "it is checked like a new one"
    answer = await answered(serve(Validator()), VALIDATE, review(misfit(), misfit(), "UPDATE"))
    assert answer["status"]["message"] == "spec.replicas: Expected `int`, got `str`"


async def test_finalizers_of_an_object_that_does_not_fit_its_type_can_be_removed() -> None:
    old = misfit(finalizers=["example.dev/sites"], deletionTimestamp="2026-01-01T00:00:00Z")
    new = misfit(deletionTimestamp="2026-01-01T00:00:00Z")
    for handler, path in ((Validator(), VALIDATE), (Defaulter(with_spec(image="nginx:2")), MUTATE)):
        answer = await answered(serve(handler), path, review(new, old, "UPDATE"))
        assert (answer["allowed"], "patch" in answer, len(answer["warnings"])) == (True, False, 1)


async def test_map_that_a_defaulter_changes_in_place_is_in_the_patch() -> None:
    def default(obj: Any, _: kcr.WebhookRequest) -> Any:
        obj.metadata.labels["tier"] = "web"
        return obj

    labeled = website()
    labeled["metadata"]["labels"] = {"app": "web"}
    assert await patch_of(default, labeled) == [{"op": "add", "path": "/metadata/labels/tier", "value": "web"}]


async def test_task_that_a_dry_run_starts_writes_after_it() -> None:
    seen: list[bool] = []
    async with asyncio.TaskGroup() as group:
        ended = asyncio.Event()

        async def refresh() -> None:
            seen.append(bool(WRITE_CONTEXT.get().dry_run))
            await ended.wait()
            seen.append(bool(WRITE_CONTEXT.get().dry_run))

        class Refreshing:
            async def validate_create(self, obj: Any, request: kcr.WebhookRequest) -> None:
                group.create_task(refresh())
                await asyncio.sleep(0)

        await answered(serve(Refreshing()), VALIDATE, review(website(), dryRun=True))
        ended.set()
    assert seen == [True, False]
