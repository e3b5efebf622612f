"""What requests are counted as, and how the counts of a server are read."""

from collections import Counter

import pytest

from bench.jobs_requests import page, read_page, verb_and_resource


@pytest.mark.parametrize(
    ("method", "target", "about"),
    [
        pytest.param("POST", "/api/v1/namespaces/team/pods?fieldManager=kcr", ("POST", "pods"), id="create"),
        pytest.param("PATCH", "/apis/batch/v1/namespaces/team/jobs/pi/status", ("PATCH", "jobs/status"), id="status"),
        pytest.param("GET", "/api/v1/pods?limit=500", ("LIST", "pods"), id="list"),
        pytest.param("GET", "/api/v1/pods?watch=true", ("WATCH", "pods"), id="watch"),
        pytest.param("GET", "/apis/batch/v1/namespaces/team/jobs/pi", ("GET", "jobs"), id="get"),
        pytest.param("DELETE", "/api/v1/namespaces/team/pods", ("DELETECOLLECTION", "pods"), id="collection"),
        pytest.param("GET", "/api/v1/namespaces/team", ("GET", "namespaces"), id="namespace"),
        pytest.param("GET", "/version", None, id="no-object"),
        pytest.param("GET", "/api/v1", None, id="discovery"),
    ],
)
def test_request_is_counted_by_verb_and_resource(method: str, target: str, about: tuple[str, str] | None) -> None:
    assert verb_and_resource(method, target) == about


def test_page_is_read_as_it_was_written() -> None:
    counts = Counter({("POST", "pods"): 3, ("PATCH", "jobs/status"): 2})
    assert read_page(page(counts)) == counts


def test_other_labels_and_families_do_not_count_apart() -> None:
    text = "\n".join((
        "# TYPE apiserver_request_total counter",
        'apiserver_request_total{code="201",resource="pods",subresource="",verb="POST"} 3',
        'apiserver_request_total{code="409",resource="pods",subresource="",verb="POST"} 1',
        'apiserver_request_total_other{verb="POST",resource="pods"} 9',
        "process_cpu_seconds_total 1",
    ))  # fmt: skip
    assert read_page(text) == Counter({("POST", "pods"): 4})
