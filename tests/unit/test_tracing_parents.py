"""The annotation with the trace context of an object's creation: who writes it, and which reconciles continue it."""

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from kcr.api.core import ConfigMap
from kcr.api.meta import ObjectMeta, OwnerReference
from kcr.tracing import CONTINUED_SECONDS, TRACEPARENT, Parents, context_in, find_tracer, links_to, with_traceparent
from tests.kit.traces import Traces

OWNER = OwnerReference(api_version="v1", kind="ConfigMap", name="a", uid="1", controller=True)
CHILD = ConfigMap(metadata=ObjectMeta(name="b", annotations={"color": "blue"}, owner_references=(OWNER,)))
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TEXT = f"00-{TRACE}-{SPAN}-01"


def test_child_that_is_created_in_a_span_has_its_context(traces: Traces) -> None:
    assert find_tracer() is not None
    with trace.get_tracer("user").start_as_current_span("reconcile") as span:
        made = with_traceparent(CHILD)
    context = span.get_span_context()
    assert made.metadata.annotations == {
        "color": "blue", TRACEPARENT: f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}",
    }  # fmt: skip


def test_object_without_an_owner_is_left_as_it_is(traces: Traces) -> None:
    assert find_tracer() is not None
    root = ConfigMap(metadata=ObjectMeta(name="b"))
    with trace.get_tracer("user").start_as_current_span("reconcile"):
        assert with_traceparent(root) is root


def test_child_outside_of_a_span_is_left_as_it_is(traces: Traces) -> None:
    assert find_tracer() is not None
    assert with_traceparent(CHILD) is CHILD


def test_span_that_is_not_sampled_leaves_no_context(monkeypatch: pytest.MonkeyPatch) -> None:
    Traces(monkeypatch, ALWAYS_OFF)
    assert find_tracer() is not None
    with trace.get_tracer("user").start_as_current_span("reconcile"):
        assert with_traceparent(CHILD) is CHILD


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("yes", id="no-context"),
        pytest.param(f"01-{TRACE}-{SPAN}-01", id="another-version"),
        pytest.param(f"00-{'0' * 32}-{SPAN}-01", id="no-trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", id="no-span"),
        pytest.param(f"00-{TRACE.upper()}-{SPAN}-01", id="upper-case"),
        pytest.param(f"{TEXT}\n", id="line-end"),
    ],
)
def test_value_that_cannot_be_read_is_ignored(text: str) -> None:
    assert context_in(text) is None
    assert Parents().find(text, 0.0) is None


def test_context_is_continued_for_an_hour() -> None:
    parents = Parents()
    context = parents.find(TEXT, 100.0)
    assert context is not None
    assert (f"{context.trace_id:032x}", f"{context.span_id:016x}", context.is_remote) == (TRACE, SPAN, True)
    assert parents.find(TEXT, 100.0 + CONTINUED_SECONDS) == context
    assert parents.find(TEXT, 101.0 + CONTINUED_SECONDS) is None


def test_oldest_contexts_are_forgotten() -> None:
    parents = Parents()
    for number in range(1, 5000):
        parents.find(f"00-{number:032x}-{SPAN}-01", 0.0)
    late = 2 * CONTINUED_SECONDS
    assert parents.find(f"00-{1:032x}-{SPAN}-01", late) is not None
    assert parents.find(f"00-{4999:032x}-{SPAN}-01", late) is None


def test_each_context_is_linked_once_and_the_parent_never() -> None:
    other = f"00-{TRACE}-{'1' * 16}-01"
    (link,) = links_to(["", TEXT, other, other, "none"], context_in(TEXT))
    assert link.context.span_id == int("1" * 16, 16)
    assert len(links_to([TEXT, other], None)) == 2
