"""Rules of faults: which requests they take, what they do, and files of them."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kcr.apiserver.kinds.catalogue import CONFIG_MAPS
from kcr.apiserver.server import HTTPRequest
from kcr.cluster import EmbeddedCluster
from kcr.cluster.faults import ConnectionLostError, FaultRule, ListenerFaults, read_faults
from kcr.errors import ConfigError
from kcr.testing.loop import VirtualClock
from tests.kit.documents import ROOT

pytestmark = pytest.mark.kcr_virtual

MAPS = "/api/v1/namespaces/default/configmaps"


def request(method: str, target: str, name: str = "") -> HTTPRequest:
    body = msgspec.json.encode({"metadata": {"name": name}}) if method == "POST" else b""
    return HTTPRequest(method, target, {"Content-Type": "application/json"}, body)


async def send(faults: ListenerFaults, cluster: EmbeddedCluster, method: str, target: str, name: str = "") -> Any:
    """Return code and body; `lost` where there is no answer."""
    try:
        response = await faults.handle(cluster.server, request(method, target, name))
    except ConnectionLostError:
        return "lost"
    assert isinstance(response.body, bytes)
    return response.status, msgspec.json.decode(response.body)


async def codes(rule: FaultRule, cluster: EmbeddedCluster, count: int = 4, **options: int) -> list[Any]:
    """Return the codes of that many creations, and what the rule counted."""
    faults = ListenerFaults([rule], **options)
    replies = [await send(faults, cluster, "POST", MAPS, f"map-{number}") for number in range(count)]
    return [reply if isinstance(reply, str) else reply[0] for reply in replies] + [faults.met(rule)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(FaultRule(verb="create", fail=409), [409] * 4 + [4], id="every"),
        pytest.param(FaultRule(verb="create", fail=500, nth=2), [201, 500, 201, 201, 1], id="nth"),
        pytest.param(FaultRule(fail=503, times=2), [503, 503, 201, 201, 2], id="times"),
        pytest.param(FaultRule(verb="update", fail=409), [201] * 4 + [0], id="another-verb"),
        pytest.param(FaultRule(resource="configmaps", lose_request=True, nth=1), ["lost", 201, 201, 201, 1], id="kind"),
        pytest.param(FaultRule(resource="jobs.batch", fail=409), [201] * 4 + [0], id="another-kind"),
    ],
)
async def test_rule_takes_requests_by_verb_kind_and_number(
    kcr_cluster: EmbeddedCluster, rule: FaultRule, expected: list[Any]
) -> None:
    assert await codes(rule, kcr_cluster) == expected


async def test_same_seed_disturbs_the_same_requests(kcr_cluster: EmbeddedCluster) -> None:
    rule = FaultRule(verb="get", chance=0.5, fail=500)
    target = "/api/v1/namespaces/default"
    runs = []
    for seed in (1, 1, 2):
        faults = ListenerFaults([rule], seed=seed)
        runs.append([(await send(faults, kcr_cluster, "GET", target))[0] for _ in range(30)])
    assert runs[0] == runs[1] != runs[2]
    assert set(runs[0]) == {200, 500}


async def test_name_is_a_pattern(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults([FaultRule(name="kube-*", fail=404)])
    assert (await send(faults, kcr_cluster, "GET", "/api/v1/namespaces/kube-system"))[0] == 404
    assert (await send(faults, kcr_cluster, "GET", "/api/v1/namespaces/default"))[0] == 200


async def test_refusal_is_a_status_with_the_time_to_try_again(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults([FaultRule(fail=429, retry_after_seconds=7)])
    response = await faults.handle(kcr_cluster.server, request("GET", MAPS))
    assert (response.status, response.headers["Retry-After"]) == (429, "7")
    assert isinstance(response.body, bytes)
    assert msgspec.json.decode(response.body)["reason"] == "TooManyRequests"


async def test_lost_reply_is_of_a_write_that_happened(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults([FaultRule(verb="create", lose_reply=True)])
    assert await send(faults, kcr_cluster, "POST", MAPS, "a") == "lost"
    assert (await send(faults, kcr_cluster, "GET", f"{MAPS}/a"))[0] == 200


async def test_delayed_request_is_executed_later(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    faults = ListenerFaults([FaultRule(delay=5)])
    async with asyncio.TaskGroup() as group:
        sent = group.create_task(send(faults, kcr_cluster, "POST", MAPS, "a"))
        await kcr_clock.advance(4)
        assert kcr_cluster.storage.get(CONFIG_MAPS, "default", "a") is None
        await kcr_clock.advance(2)
        assert (await sent)[0] == 201


async def test_older_list_shows_what_was_there(kcr_cluster: EmbeddedCluster) -> None:
    for name in ("a", "b"):
        await send(ListenerFaults(), kcr_cluster, "POST", MAPS, name)
    faults = ListenerFaults([FaultRule(verb="list", resource="configmaps", older=1)])
    _, body = await send(faults, kcr_cluster, "GET", f"{MAPS}?limit=500&resourceVersion=0")
    assert [one["metadata"]["name"] for one in body["items"]] == ["a"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(FaultRule(verb="watch", cut=2), ["a", "b", "lost"], id="cut"),
        pytest.param(FaultRule(verb="watch", cut=0), ["lost"], id="cut-at-once"),
        pytest.param(FaultRule(verb="watch", freeze=1), ["a", "lost"], id="freeze"),
        pytest.param(FaultRule(verb="watch", repeat=True), ["a", "a", "b", "b", "c", "c"], id="repeat"),
        pytest.param(FaultRule(verb="watch", lag=3), ["a", "b", "c"], id="lag"),
    ],
)
async def test_watch_is_disturbed(kcr_cluster: EmbeddedCluster, rule: FaultRule, expected: list[str]) -> None:
    for name in ("a", "b", "c"):
        await send(ListenerFaults(), kcr_cluster, "POST", MAPS, name)
    target = f"{MAPS}?watch=true&resourceVersion=0&timeoutSeconds=60"
    response = await ListenerFaults([rule]).handle(kcr_cluster.server, request("GET", target))
    assert not isinstance(response.body, bytes)
    seen = []
    try:
        async for chunk in response.body:
            seen += [msgspec.json.decode(line)["object"]["metadata"]["name"] for line in chunk.splitlines()]
    except ConnectionLostError:
        seen.append("lost")
    await response.body.aclose()
    assert seen == expected


async def test_healed_cluster_has_no_faults(kcr_cluster: EmbeddedCluster) -> None:
    faults = ListenerFaults()
    faults.add(FaultRule(fail=500))
    assert (await send(faults, kcr_cluster, "GET", MAPS))[0] == 500
    faults.heal()
    assert (await send(faults, kcr_cluster, "GET", MAPS))[0] == 200


async def test_file_is_read(tmp_path: Path, kcr_cluster: EmbeddedCluster) -> None:
    file = tmp_path / "faults.yaml"
    file.write_text(
        "seed: 3\nfaults:\n- {verb: create, resource: configmaps, nth: 1, loseReply: true}\n- {fail: 429}\n"
    )
    assert await send(read_faults(file), kcr_cluster, "GET", MAPS) != "lost"


def test_file_of_the_guide_is_read(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "dev-cluster.md").read_text(encoding="utf-8")
    (tmp_path / "faults.yaml").write_text(guide.partition("```yaml\n")[2].partition("```")[0])
    read_faults(tmp_path / "faults.yaml")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("[]", "a mapping with a list `faults`", id="list"),
        pytest.param("faults: []\nmore: 1", "a mapping with a list `faults`", id="another-field"),
        pytest.param("faults: []\nseed: x", "seed: a whole number is needed", id="seed"),
        pytest.param(
            "faults: [{fail: 409}, {verb: creat, fail: 409}]", "rule 2: Invalid enum value 'creat'", id="verb"
        ),
        pytest.param("faults: [{fial: 409}]", "rule 1: Object contains unknown field `fial`", id="unknown"),
        pytest.param("faults: [{fail: 200}]", "rule 1: Invalid enum value 200", id="code"),
        pytest.param(
            "faults: [{verb: get}]", "rule 1: one fault is needed, of fail, delay, loseRequest", id="no-fault"
        ),
        pytest.param("faults: [{fail: 409, delay: 1}]", "there are 2", id="two-faults"),
        pytest.param("faults: [{cut: 1}]", "rule 1: cut is a fault of verb: watch", id="cut"),
        pytest.param("faults: [{verb: get, older: 1}]", "rule 1: older is a fault of verb: list", id="older"),
        pytest.param("faults: [{delay: 1, retryAfterSeconds: 1}]", "retryAfterSeconds belongs to fail", id="retry"),
        pytest.param("faults: [{fail: 1}, {}]", "rule 1: .*; rule 2: ", id="each"),
        pytest.param("faults: [", "faults.yaml: ", id="no-yaml"),
    ],
)
def test_wrong_rule_is_named(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "faults.yaml").write_text(text)
    with pytest.raises(ConfigError, match=error):
        read_faults(tmp_path / "faults.yaml")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        read_faults(tmp_path / "none.yaml")
