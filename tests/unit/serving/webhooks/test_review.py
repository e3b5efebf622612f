"""AdmissionReviews: decoded as a value, answered in their version."""

import json

import pytest

from kcr.errors import BadRequestError, Cause, Denied, ForbiddenError, InvalidError, error_for
from kcr.serving.webhooks.review import AdmissionResponse, decode_review, encode_review, limited_warnings, status_of
from tests.kit.reviews import Website, review, website


def test_request_has_what_the_api_server_says() -> None:
    version, request = decode_review(json.dumps(review(website(), website(), "UPDATE", dryRun=True)).encode())
    assert (version, request.operation, request.dry_run) == ("admission.k8s.io/v1", "UPDATE", True)
    assert (request.user.name, request.user.groups) == ("alice", ("system:authenticated", "admins"))
    assert request.user.extra == {"some-key": ("value1", "value2")}
    assert (request.namespace, request.name, str(request.kind)) == ("default", "home", "example.dev/v1 Website")
    assert request.options["fieldManager"] == "kubectl"
    old = request.old(Website)
    assert old is not None
    assert old.spec.image == "nginx:1"
    assert json.loads(bytes(request.raw_object)) == website()


def test_nulls_of_go_are_absences() -> None:
    body = json.dumps(review(website(), None, options=None, dryRun=None)).encode()
    _, request = decode_review(body)
    assert request.old(Website) is None
    assert request.options == {}
    assert not request.dry_run


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"apiVersion": "admission.k8s.io/v2"}, "no AdmissionReview of", id="version"),
        pytest.param({"kind": "TokenReview"}, "TokenReview", id="kind"),
        pytest.param({"request": None}, "has no request", id="no-request"),
        pytest.param({"request": {"uid": "", "operation": "CREATE"}}, "uid is empty", id="empty-uid"),
        pytest.param({"request": {"uid": 3, "operation": "CREATE"}}, "request.uid", id="uid-is-a-number"),
        pytest.param({"request": {"uid": "a", "operation": "PATCH"}}, "PATCH", id="operation"),
    ],
)
def test_malformed_review_is_a_bad_request(change: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        decode_review(json.dumps({**review(website()), **change}).encode())


def test_review_is_answered_in_its_version() -> None:
    answer = json.loads(encode_review("admission.k8s.io/v1beta1", AdmissionResponse(uid="a", allowed=False)))
    assert answer == {
        "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"uid": "a", "allowed": False}
    }  # fmt: skip


def test_patch_is_base64() -> None:
    answer = json.loads(encode_review("v1", AdmissionResponse(uid="a", allowed=True, patch=b"[]")))
    assert answer["response"]["patch"] == "W10="


def test_denial_with_a_field_is_invalid_with_a_cause() -> None:
    status = status_of((Denied("must not be latest", field="spec.image"),))
    assert (status.code, status.reason, status.message) == (422, "Invalid", "spec.image: must not be latest")
    assert status.details is not None
    assert status.details.causes is not None
    assert (status.details.causes[0].field, status.details.causes[0].reason) == ("spec.image", "FieldValueInvalid")
    assert isinstance(error_for(status.code, status.reason, status.message), InvalidError)


def test_denial_without_a_field_is_forbidden() -> None:
    status = status_of((Denied("no"),))
    assert (status.code, status.reason, status.message, status.details) == (403, "Forbidden", "no", None)
    assert isinstance(error_for(status.code, status.reason, status.message), ForbiddenError)


def test_merged_denials_have_all_causes() -> None:
    status = status_of((Denied("bad", field="spec.a"), Denied("bad", field="spec.b"), Denied("no")))
    assert (status.code, status.message) == (422, "spec.a: bad; spec.b: bad; no")
    assert status.details is not None
    causes = [Cause(one.field, one.reason, one.message) for one in status.details.causes or ()]
    assert causes == [
        Cause("spec.a", "FieldValueInvalid", "bad"), Cause("spec.b", "FieldValueInvalid", "bad"),
        Cause("", "Forbidden", "no"),
    ]  # fmt: skip


def test_warnings_are_limited() -> None:  # WH-5
    assert limited_warnings(["a", "", "a", "b"]) == ("a", "b")
    assert limited_warnings(["x" * 300]) == ("x" * 256,)
    many = limited_warnings([f"{number:0256}" for number in range(20)])
    assert len(many) == 16


def test_message_with_a_surrogate_is_encoded() -> None:
    status = status_of((Denied("no \udcff here", field="spec.a"),))
    assert b"no ? here" in encode_review("v1", AdmissionResponse(uid="a", allowed=False, status=status))
    assert limited_warnings(["\udcff"]) == ("?",)
