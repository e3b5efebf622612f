"""What a real API server sends to webhooks, and makes of their answers: the embedded one does the same.

Compared are code, message, causes and warnings of the answer, and the reviews: all members but managed fields, and
empty ones of objects. What differs stands in `EXCEPTIONS`, with the reason; a row may differ in nothing else.
"""

from typing import NamedTuple

import pytest

from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.recorded_reviews import Recorder, recorded_requests
from tests.kit.recordings import server_without_controllers


class Exemption(NamedTuple):
    """How some rows differ, and why they may.

    Attributes:
        rows: Their names.
        differences: How the differences begin.
        reason: Why they are right.
    """

    rows: tuple[str, ...]
    differences: tuple[str, ...]
    reason: str


_CALLS = ("mutate: : 0 for 1", "validate: : 0 for 1")
_ANSWER = ("code ", "answer.", "no answer.")
EXCEPTIONS = (
    Exemption(("update with an old version",), _CALLS[:1], "conflicts are found before webhooks are called"),
    Exemption(
        ("create a namespace", "finalize a namespace", "create a claim", "create a definition"),
        ("mutate: no [0].request.object.status",), "the status gets its defaults after the mutating phase",
    ),
    Exemption(("create a claim",), ("validate: [0].request.object.status",), "the phase is set at once"),
    Exemption(
        ("create a job",), ("validate: [0].request.object.metadata.labels",),
        "the labels of the template are copied at once, upstream when the Job is read",
    ),
    Exemption(
        ("connect to the proxy of a node", "connect to the proxy of a service", "connect to the proxy of a pod"),
        (*_CALLS, *_ANSWER), "proxies are not served",
    ),
    Exemption(("add an ephemeral container",), (*_CALLS, *_ANSWER), "not served"),
    Exemption(
        ("resize a pod",),
        tuple(
            f"{name}: {begin}[0].request.{one}.{field}"
            for name in ("mutate", "validate") for one in ("object", "oldObject")
            for begin, field in (("", "metadata.generation"), ("no ", "spec.ephemeralContainers"))
        ),
        "there, the pod has an ephemeral container",
    ),
    Exemption(
        ("exec", "exec by GET", "attach", "forward a port", "read the log"), _ANSWER, "the answers depend on the node",
    ),
    Exemption(
        (
            "create an access review", "create an access review of oneself", "create a local access review",
            "create a rules review of oneself", "create a subject review of oneself", "create a token review",
        ),
        _CALLS, "reviews of access and tokens are not sent to webhooks",
    ),
    Exemption(
        ("create a token",), ("validate: no [0].request.object.metadata.",),
        "a token request is not prepared like a stored object",
    ),
    Exemption(
        ("delete a terminating pod", "delete a pod gracefully"), ("mutate: : 1 for 2", "validate: : 1 for 2"),
        "upstream reviews a pod again when it is removed at once",
    ),
    Exemption(
        ("conversion of a list refused",), ("another conversion: ",),
        "a list is one review, upstream stops at the first object",
    ),
    Exemption(
        ("patch of a widget with an unknown field",),
        tuple(f"{name}: no [0].request.object.spec.what" for name in ("equivalent", "exact", "validate")),
        "unknown fields are pruned at once, upstream when the object is stored",
    ),
    Exemption(
        (
            "patch that is no base64", "answer that is no JSON", "answer with a wrong type",
            "conversion answered with no JSON",
        ),
        ("answer.",), "the words of the decoder",
    ),
    Exemption(
        ("create with a conversion refused",), ("validate: : 1 for 0",),
        "other webhooks are called while the object is converted",
    ),
    Exemption(("two denials",), ("answer.message",), "the first denial in the order of the configuration, not in time"),
)  # fmt: skip


def unexplained(row: str, differences: list[str]) -> list[str]:
    """Return the differences of a row that no exemption explains."""
    allowed = [begin for one in EXCEPTIONS if row in one.rows for begin in one.differences]
    return [difference for difference in differences if not difference.startswith(tuple(allowed))]


@pytest.mark.kcr_virtual
async def test_webhooks_get_what_a_real_server_sends(kcr_clock: VirtualClock) -> None:
    recorder = Recorder(await server_without_controllers(kcr_clock, ()))
    found = {row.name: await recorder.differences(row) for row in recorded_requests()}
    assert len(found) >= 200
    wrong = {row: unexplained(row, differences) for row, differences in found.items()}
    assert {row: differences for row, differences in wrong.items() if differences} == {}
    needed = {row for row, differences in found.items() if differences}
    assert {row for one in EXCEPTIONS for row in one.rows} == needed, "an exemption that no row needs"
