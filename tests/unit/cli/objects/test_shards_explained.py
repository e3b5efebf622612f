"""The line of an explanation that names the shard of an object and its holder."""

from datetime import timedelta

import msgspec
import pytest

from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.core import Pod
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import MicroTime, ObjectMeta, Resource
from kcr.cli.objects.inside import ControllerView, Inside
from kcr.cli.objects.shards import name_holder, seen_by
from kcr.client import Client
from kcr.serving.debug.state import KeyDetail, ShardingState
from tests.kit.builders import NOW
from tests.kit.debug_states import debug_state, key_state
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

# Slot 60: the last of eight shards.
METADATA = ObjectMeta(name="pi", namespace="etl", uid="u", labels={"kcr.dev/slot": "60"})
WAITS = Explanation(Code.WAITING, "waits 5s before it replaces a failed pod", reasons=("1 pod has failed",))


def lease(number: int, holder: str, *, program: str = "kcr") -> Lease:
    time = MicroTime.of(NOW - timedelta(seconds=1))
    labels = {"kcr.dev/sharding": program, "kcr.dev/shard": str(number)}
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, acquire_time=time, renew_time=time)
    name = f"{program}-shard-{number}"
    return Lease(metadata=ObjectMeta(name=name, namespace="kcr-system", labels=labels), spec=spec)


def leases(*found: Lease) -> Say:
    return Say({"items": [msgspec.json.decode(codec.encode(one)) for one in found]})


EIGHT = tuple(lease(number, "a" if number < 4 else "b") for number in range(8))


def inside(*phases: int, is_sharded: bool = True) -> Inside:
    sharding = ShardingState(
        lease="kcr-system/kcr", identity="a", shards=8, phases=dict.fromkeys(phases, "active"), held="", moves={},
        last_handover_seconds=0.1,
    )  # fmt: skip
    detail = KeyDetail(
        controller="job", state=key_state("etl/pi", "idle"), runs=(), unconfirmed=(), explanation=None,
        explanation_error="",
    )  # fmt: skip
    state = debug_state(leadership=None, sharding=sharding)
    return Inside(state, (ControllerView(detail, None, is_sharded=is_sharded),))


async def reasons(
    answer: Say, explanation: Explanation = WAITS, kind: type[Resource] = Job, state: Inside | None = None
) -> tuple[str, ...]:
    found = await name_holder(Client(Script(answer)), kind, METADATA, explanation, NOW, state)
    assert (found.code, found.headline) == (explanation.code, explanation.headline)
    return found.reasons[len(explanation.reasons) :]


async def test_holder_of_a_jobs_shard_is_the_last_reason() -> None:
    assert await reasons(leases(*EIGHT)) == ("shard 7 of 8, held by b",)


async def test_shard_without_holder_names_the_command() -> None:
    answer = leases(*EIGHT[:7], lease(7, ""))
    found = await name_holder(Client(Script(answer)), Job, METADATA, WAITS, NOW, None)
    assert found.reasons[-1] == "shard 7 of 8 has no holder: no replica reconciles its objects"
    assert found.remedies == ("to see all shards: kcr shards -n kcr-system --name kcr",)


@pytest.mark.parametrize(
    ("answer", "explanation", "kind"),
    [
        pytest.param(leases(), WAITS, Job, id="no-sharding"),
        pytest.param(failure(403, "Forbidden"), WAITS, Job, id="no-right"),
        pytest.param(leases(*EIGHT, lease(0, "x", program="web")), WAITS, Job, id="two-programs"),
        pytest.param(leases(*EIGHT), WAITS, Pod, id="no-kind-of-kcr"),
        pytest.param(leases(*EIGHT), Explanation(Code.FINISHED, "has completed"), Job, id="finished"),
        pytest.param(leases(*EIGHT), Explanation(Code.NO_CONTROLLER, "no controller"), Job, id="no-controller"),
    ],
)
async def test_nothing_is_added_where_it_may_not_be_so(
    answer: Say, explanation: Explanation, kind: type[Resource]
) -> None:
    assert await reasons(answer, explanation, kind) == ()


async def test_debug_port_decides_among_programs() -> None:
    several = leases(*EIGHT, lease(0, "x", program="web"))
    assert await reasons(several, kind=Pod, state=inside(0)) == ("shard 7 of 8, held by b",)
    assert await reasons(several, state=inside(0, is_sharded=False)) == ("shard 0 of 8, held by a",)


def test_replica_without_the_shard_knows_nothing() -> None:
    assert seen_by(inside(0, 1), METADATA).stands_by
    assert not seen_by(inside(7), METADATA).stands_by
    assert not seen_by(inside(0, is_sharded=False), METADATA).stands_by
    unsharded = Inside(debug_state(leadership=None), ())
    assert not seen_by(unsharded, METADATA).stands_by
