from random import Random

import pytest
from msgspec.structs import replace

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client, retry_on_conflict
from kcr.client.client import DEFAULT_BACKOFF, DEFAULT_RETRY, ConflictRetry
from kcr.errors import ConflictError, ForbiddenError
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "a")


def pod(version: int) -> Say:
    return Say({"metadata": {"name": "a", "namespace": "default", "resourceVersion": str(version)}})


class Steady(Random):
    """Chance that takes no part."""

    def random(self) -> float:
        return 0.0


async def test_write_is_tried_again_with_the_object_as_it_is() -> None:
    # CL-13: each attempt reads from the server, never from a store.
    script = Script(pod(1), failure(409, "Conflict"), pod(2), failure(409, "Conflict"), pod(3), pod(4))
    client, seen = Client(script), list[str]()

    async def write(found: Pod) -> Pod:
        seen.append(found.metadata.resource_version)
        return await client.patch(found, replace(found, metadata=replace(found.metadata, labels={"k": "v"})))

    written = await retry_on_conflict(client, Pod, KEY, write, random=Steady())
    assert (seen, written.metadata.resource_version) == (["1", "2", "3"], "4")
    assert script.times == pytest.approx([0, 0, 0.01, 0.01, 0.02, 0.02])


@pytest.mark.parametrize(
    ("retry", "times"),
    [
        pytest.param(DEFAULT_RETRY, [0, 0.01, 0.02, 0.03, 0.04], id="default"),
        pytest.param(DEFAULT_BACKOFF, [0, 0.01, 0.06, 0.31], id="backoff"),
    ],
)
async def test_last_conflict_is_the_callers(retry: ConflictRetry, times: list[float]) -> None:
    # CL-13: 5 tries 10 ms apart, or 4 with pauses that grow five-fold.
    script = Script(*(pod(1) for _ in range(9)))

    async def write(_: Pod) -> None:
        raise ConflictError(409, "Conflict", "again")

    with pytest.raises(ConflictError, match="again"):
        await retry_on_conflict(Client(script), Pod, KEY, write, retry=retry, random=Steady())
    assert script.times == pytest.approx(times)


async def test_other_refusals_are_not_tried_again() -> None:
    script = Script(pod(1), failure(403, "Forbidden"))
    client = Client(script)
    with pytest.raises(ForbiddenError):
        await retry_on_conflict(client, Pod, KEY, lambda found: client.delete(Pod, found.key))
    assert len(script.requests) == 2


async def test_pauses_differ_by_a_tenth_at_most() -> None:
    script = Script(*(pod(1) for _ in range(5)))

    async def write(_: Pod) -> None:
        raise ConflictError(409, "Conflict", "again")

    with pytest.raises(ConflictError):
        await retry_on_conflict(Client(script), Pod, KEY, write, random=Random(1))
    pauses = [after - before for before, after in zip(script.times, script.times[1:], strict=False)]
    assert all(0.01 <= pause <= 0.011 for pause in pauses)
    assert len(set(pauses)) == 4
