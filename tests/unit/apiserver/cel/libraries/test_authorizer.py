from collections.abc import Mapping

import pytest

from kcr_devcluster.apiserver.cel.libraries.authorizer import Authorizer, Decision
from tests.kit.cel_functions import call


def echo(wanted: Mapping[str, str]) -> Decision:
    """Allow what is no deletion, and tell what was asked."""
    return Decision(wanted["verb"] != "delete", " ".join(f"{name}={value}" for name, value in sorted(wanted.items())))


AUTHORIZER = Authorizer(echo)


def test_question_about_a_resource_is_put_together() -> None:
    check = call("resource", call("group", AUTHORIZER, "apps"), "deployments")
    for name, value in (("subresource", "scale"), ("namespace", "a"), ("name", "b"), ("labelSelector", "c=d")):
        check = call(name, check, value)
    decision = call("check", call("fieldSelector", check, "e=f"), "get")
    assert call("allowed", decision)
    wanted = "fieldSelector=e=f group=apps labelSelector=c=d name=b namespace=a resource=deployments"
    assert call("reason", decision) == f"{wanted} subresource=scale verb=get"
    assert not call("errored", decision)
    assert call("error", decision) == ""


def test_question_about_a_path_may_be_asked_for_a_service_account() -> None:
    account = call("serviceAccount", AUTHORIZER, "default", "builder")
    decision = call("check", call("path", account, "/healthz"), "delete")
    assert not call("allowed", decision)
    assert call("reason", decision) == "path=/healthz serviceAccount=default:builder verb=delete"


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("path", (" ",), "path must not be empty"),
        ("serviceAccount", ("default", "a@b"), "Invalid service account name"),
        ("serviceAccount", ("a.b", "builder"), "Invalid service account namespace"),
    ],
)
def test_question_that_makes_no_sense_is_refused(name: str, arguments: tuple[str, ...], why: str) -> None:
    assert call(name, AUTHORIZER, *arguments) == f"error: {why}"


def test_resource_without_a_name_is_refused() -> None:
    assert call("resource", call("group", AUTHORIZER, "apps"), " ") == "error: resource must not be empty"


def test_failure_of_the_authorizer_is_told() -> None:
    decision = Decision(False, "", "no answer")
    assert call("errored", decision)
    assert call("error", decision) == "no answer"
