"""Which requests a dry run changes, and how."""

import json

import pytest

from kcr.client import Request
from kcr.client.calls import as_dry_run, describe_write
from kcr.errors import KcrError

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(MAPS, f"{MAPS}?dryRun=All", id="no-query"),
        pytest.param(f"{MAPS}?force=true", f"{MAPS}?force=true&dryRun=All", id="query"),
        pytest.param(f"{MAPS}?dryRun=All", f"{MAPS}?dryRun=All", id="asked-already"),
        pytest.param(f"{MAPS}?dryRun=&force=true", f"{MAPS}?force=true&dryRun=All", id="empty"),
        pytest.param(f"{MAPS}?dry%52un=", f"{MAPS}?dryRun=All", id="escaped"),
        pytest.param(f"{MAPS}?fieldManager=dryRun=", f"{MAPS}?fieldManager=dryRun=&dryRun=All", id="in-a-value"),
        pytest.param(f"{MAPS}?labelSelector=dryRun=a", f"{MAPS}?labelSelector=dryRun=a&dryRun=All", id="selector"),
    ],
)
def test_write_asks_the_server_to_keep_nothing(target: str, expected: str) -> None:
    assert as_dry_run(Request("POST", target, {}, b"{}")).target == expected


def test_options_in_the_body_of_a_deletion_say_so_too() -> None:
    request = as_dry_run(Request("DELETE", f"{MAPS}/a", {}, b'{"propagationPolicy":"Orphan"}'))
    assert json.loads(request.body) == {"propagationPolicy": "Orphan", "dryRun": ["All"]}


def test_reads_are_sent_as_they_are() -> None:
    request = Request("GET", f"{MAPS}?watch=true")
    assert as_dry_run(request) is request
    assert describe_write(request) == {}


@pytest.mark.parametrize("what", ["POST exec", "POST attach", "POST portforward", "POST proxy/metrics", "GET exec"])
def test_what_has_no_dry_run_is_not_sent(what: str) -> None:
    method, _, part = what.partition(" ")
    with pytest.raises(KcrError, match="there is no dry run of it"):
        as_dry_run(Request(method, f"/api/v1/namespaces/default/pods/a/{part}"))


@pytest.mark.parametrize("body", [b"k8s\x00", b'{"propagationPolicy":"\xff"}'])
def test_deletion_with_an_unreadable_body_is_not_sent(body: bytes) -> None:
    with pytest.raises(KcrError, match="its body is not a JSON object"):
        as_dry_run(Request("DELETE", f"{MAPS}/a", {}, body))


def test_log_names_verb_and_object() -> None:
    created = describe_write(Request("POST", MAPS, {}, b'{"metadata":{"name":"a"}}'))
    assert created == {"verb": "create", "object": f"{MAPS}/a"}
    patched = describe_write(Request("PATCH", f"{MAPS}/a?fieldManager=x", {}, b"{}"))
    assert patched == {"verb": "patch", "object": f"{MAPS}/a"}
    assert describe_write(Request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {}, b"{}")) == {}
