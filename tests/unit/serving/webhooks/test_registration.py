"""The registration of a webhook: paths, names, rules, and mistakes that are told at once."""

from typing import Any

import pytest

import kcr
from kcr.api.apps import Scale
from kcr.api.core import Pod
from kcr.api.full import apps_v1
from kcr.serving.webhooks.registration import WebhookOptions, WebhookRule, register
from tests.kit.reviews import Website


class Both:
    def default(self, obj: Any, request: kcr.WebhookRequest) -> None: ...

    async def validate_create(self, obj: Any, request: kcr.WebhookRequest) -> None: ...

    def validate_delete(self, old: Any, request: kcr.WebhookRequest) -> None: ...


class Connects:
    def validate_connect(self, options: Any, request: kcr.WebhookRequest) -> None: ...


class Updates:
    def validate_update(self, old: Any, new: Any, request: kcr.WebhookRequest) -> None: ...


def registered(webhook: object, kind: type[kcr.Resource] = Website, **options: Any) -> tuple[WebhookRule, ...]:
    return register(kind, webhook, WebhookOptions(**options))


def test_operations_paths_and_names_follow_from_kind_and_methods() -> None:  # WH-2
    mutating, validating = registered(Both())
    assert (mutating.path, mutating.operations) == ("/mutate-example-dev-v1-website", ("CREATE", "UPDATE"))
    assert (validating.path, validating.operations) == ("/validate-example-dev-v1-website", ("CREATE", "DELETE"))
    assert (mutating.name, validating.name) == ("mutate.v1.websites.example.dev", "validate.v1.websites.example.dev")
    assert registered(Updates(), Pod)[0].path == "/validate--v1-pod"
    assert registered(Updates(), Pod)[0].name == "validate.v1.pods.core"


@pytest.mark.parametrize(
    ("subresource", "kind", "operations"),
    [
        pytest.param("status", apps_v1.Deployment, ("UPDATE",), id="status"),
        pytest.param("scale", Scale, ("UPDATE",), id="scale"),
    ],
)
def test_subresource_has_its_own_path_and_type(subresource: str, kind: type, operations: tuple[str, ...]) -> None:
    (one,) = registered(Updates(), apps_v1.Deployment, subresource=subresource)
    assert (one.path, one.object_kind) == (f"/validate-apps-v1-deployment-{subresource}", kind)
    assert one.operations == operations


def test_connect_reviews_the_options() -> None:
    (one,) = registered(Connects(), Pod, subresource="exec")
    assert (one.object_kind.resource.kind, one.object_kind.resource.api_version) == ("PodExecOptions", "v1")
    assert one.operations == ("CONNECT",)


def test_operations_limits_what_the_methods_imply() -> None:
    mutating, validating = registered(Both(), operations=("CREATE",))
    assert mutating.operations == validating.operations == ("CREATE",)


def test_sequence_of_handlers_is_one_webhook() -> None:
    (validating,) = registered([Updates(), Updates()])
    assert len(validating.handlers) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"timeout_seconds": 40}, "timeout_seconds is 40: .* from 1 to 30", id="timeout"),
        pytest.param({"failure_policy": "no"}, "failure_policy is 'no': give it 'Fail' or 'Ignore'", id="policy"),
        pytest.param({"side_effects": "Some"}, "side_effects is 'Some': .*'NoneOnDryRun'", id="side-effects"),
        pytest.param({"operations": ("PATCH",)}, "operations.0. is 'PATCH'", id="operations"),
        pytest.param({"match_conditions": ["a"]}, "match_conditions is .'a'.: give it a mapping", id="conditions"),
        pytest.param({"mutating_path": "mutate"}, "mutating_path is 'mutate'", id="path"),
        pytest.param({"mutating_path": "/a", "validating_path": "/a"}, "are both /a: use two", id="same-path"),
        pytest.param({"name": "short"}, "name is 'short': use three segments", id="name"),
        pytest.param({"namespace_selector": {"app": "a"}}, "a selector has 'app': use matchLabels", id="selector"),
        pytest.param({"subresource": "scale"}, "would never be called", id="method-without-operation"),
    ],
)  # fmt: skip
def test_wrong_option_is_told_with_its_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        registered(Both(), **options)


class Misspelt:
    def validate(self, obj: Any) -> None: ...


class WrongArguments:
    def validate_update(self, old: Any, request: Any) -> None: ...


@pytest.mark.parametrize(
    ("kind", "webhook", "message"),
    [
        pytest.param(Website, Misspelt(), "Misspelt has none of the methods default, validate_create", id="no-method"),
        pytest.param(
            Website, WrongArguments(), r"define it as validate_update\(self, old, new, request\)", id="arguments"
        ),
        pytest.param(Website, Both, r"Both is a class: give it an object, Both\(manager\)", id="class"),
    ],
)
def test_wrong_handler_is_told_with_its_remedy(kind: Any, webhook: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        registered(webhook, kind)
