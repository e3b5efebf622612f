import pytest

from kcr_devcluster.apiserver.protocol.field_errors import too_long
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import (
    LABEL_MESSAGE,
    QUALIFIED_MESSAGE,
    SUBDOMAIN_MESSAGE,
    VALUE_MESSAGE,
    check_annotations,
    check_labels,
    check_selector,
    dns_label,
    dns_subdomain,
    domain_prefixed_path,
    label_value,
    port_name,
    qualified_name,
    selects,
)
from tests.kit.manifests import texts


@pytest.mark.parametrize("text", ["a", "a-1", "0", "a" * 63])
def test_label_of_small_letters_is_good(text: str) -> None:
    assert dns_label(text) == dns_subdomain(text) == ()


def test_label_messages_are_upstreams() -> None:
    assert dns_label("A_b") == (LABEL_MESSAGE,)
    assert dns_label("a.b") == ("must not contain dots",)
    assert dns_label("a" * 64) == ("must be no more than 63 characters",)
    assert dns_subdomain("Abc") == (SUBDOMAIN_MESSAGE,)
    assert dns_subdomain("a" * 254) == ("must be no more than 253 characters",)
    assert LABEL_MESSAGE.endswith(
        "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )


@pytest.mark.parametrize("text", ["a", "A.b_c-d", "example.com/Name", "x/" + "a" * 63])
def test_qualified_name_may_have_a_prefix(text: str) -> None:
    assert qualified_name(text) == ()


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        pytest.param("a b", (QUALIFIED_MESSAGE,), id="blank"),
        pytest.param("", ("name part must be non-empty", QUALIFIED_MESSAGE), id="empty"),
        pytest.param("/a", ("prefix part must be non-empty",), id="empty-prefix"),
        pytest.param("A/a", (f"prefix part {SUBDOMAIN_MESSAGE}",), id="bad-prefix"),
        pytest.param("a" * 64, ("name part must be no more than 63 bytes",), id="long"),
    ],
)
def test_qualified_name_is_refused_part_by_part(text: str, reasons: tuple[str, ...]) -> None:
    assert qualified_name(text) == reasons


def test_three_parts_are_no_qualified_name() -> None:
    (reason,) = qualified_name("a/b/c")
    assert reason.endswith("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")


def test_label_value_may_be_empty() -> None:
    assert label_value("") == ()
    assert label_value("bad value") == (VALUE_MESSAGE,)
    assert label_value("a" * 64) == ("must be no more than 63 bytes",)


def test_faults_of_labels_name_key_or_value() -> None:
    faults = check_labels({"a b": "ok", "ok": "bad value"}, "metadata.labels")
    assert [(fault.field, fault.message) for fault in faults] == [
        ("metadata.labels", f'Invalid value: "a b": {QUALIFIED_MESSAGE}'),
        ("metadata.labels", f'Invalid value: "bad value": {VALUE_MESSAGE}'),
    ]


def test_annotations_may_not_be_too_large_together() -> None:
    assert check_annotations({"Some.Key": "x" * 1000}, "metadata.annotations") == []
    (fault,) = check_annotations({"a": "x" * 262144}, "metadata.annotations")
    assert fault == too_long("metadata.annotations", 262144)


def test_port_name_has_a_letter_and_few_of_them() -> None:
    assert port_name("http") == ()
    assert port_name("123") == ("must contain at least one letter (a-z)",)
    assert port_name("a--b") == ("must not contain consecutive hyphens",)
    assert port_name("a" * 16) == ("must be no more than 15 characters",)


def test_domain_prefixed_path_names_the_bad_part() -> None:
    assert domain_prefixed_path("acme.io/foo/bar") == []
    assert [part for part, _ in domain_prefixed_path("acme.io/")] == ["acme.io/"]
    assert [part for part, _ in domain_prefixed_path("Acme/a b")] == ["Acme", "a b"]


def requirement(operator: str, *values: str, key: str = "a") -> Manifest:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "fault"),
    [
        pytest.param(
            requirement("In"), "values: Required value: must be specified when `operator` is 'In' or 'NotIn'", id="in"
        ),
        pytest.param(
            requirement("Exists", "b"),
            "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            id="exists",
        ),
        pytest.param(requirement("Foo"), 'operator: Invalid value: "Foo": not a valid selector operator', id="unknown"),
    ],
)
def test_requirement_is_refused_in_upstreams_words(selector: Manifest, fault: str) -> None:
    assert texts(check_selector(selector, "spec.selector")) == [f"spec.selector.matchExpressions[0].{fault}"]


def test_labels_of_selector_are_checked() -> None:
    (fault,) = check_selector({"matchLabels": {"a": "b c"}}, "spec.selector")
    assert fault.field == "spec.selector.matchLabels"


def test_selector_picks_by_labels_and_requirements() -> None:
    assert check_selector(requirement("In", "b", "c"), "spec.selector") == []
    assert selects(requirement("In", "b", "c"), {"a": "b"})
    assert not selects({"matchLabels": {"a": "b"}, **requirement("DoesNotExist", key="x")}, {"a": "b", "x": ""})
    assert selects({}, {"anything": "goes"})
