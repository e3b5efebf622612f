"""Checks of a cluster before controllers run on it: version, clock, namespaces, rights, and who else does their work.

Each finding is one line with the remedy. `kcr check` prints them all; `kcr run` logs at its start those that are wrong.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import chain, groupby
from typing import Any, NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.api.core import Namespace
from kcr.api.managed_fields import ManagedObject, ManagedObjectList, ManagedObjectMeta
from kcr.api.meta import Key, Object
from kcr.api.resources import ResourceType
from kcr.api.slots import SLOTS
from kcr.app.rbac import LEASE_RIGHTS, METRICS_RIGHTS, SHARDING_RIGHTS, Need, Permissions
from kcr.client import Client, Request
from kcr.client.client import version_in
from kcr.client.discovery import served_resources, versions_serving
from kcr.client.wire.decoding import error_from
from kcr.client.wire.pressure import with_retries
from kcr.clock import Clock
from kcr.controller import Right
from kcr.errors import KcrError, NotFoundError
from kcr.informer import Selection
from kcr.informer.selection import namespaces_in
from kcr.informer.slots import SlotRules, SlotSelection

# The controllers are tested with these versions, `docs/guide/compatibility.md`. v1.30 refuses the status of a Job that
# completes; `spec.managedBy`, by which Jobs are shared, is on by default since v1.32.
OLDEST, NEWEST, MANAGED_BY_SINCE = (1, 31), (1, 37), (1, 32)
# HTTP dates have whole seconds.
TOLERATED_SKEW_SECONDS = 5.0
# So many objects of a kind are read, and a write so long ago counts.
_OBJECTS, _RECENT = 100, timedelta(minutes=10)
_MANAGER = "kube-controller-manager"
# The kinds whose status its controllers write.
_STATUSES = {"jobs": "Job", "cronjobs": "CronJob"}

_LEASE_UNREAD = "no other controller has written the status of a Job lately; its lease in kube-system cannot be read"
_READ_NAMESPACE, _READ_LEASE = Right("", "namespaces", "get"), Right("coordination.k8s.io", "leases", "get")


_FILTERS = "the API server filters unlabelled objects by shard (KEP-5866)"
_FILTERS_NOT = "the API server does not filter by shard; kcr drops foreign objects before decoding"
_NOT_TOLD = "not told whether the API server filters by shard: no watched kind can be listed"
# Not all of them: the API server has nothing to filter then.
_HALF = SlotSelection(frozenset(range(SLOTS // 2)), is_labelled=False, rules=SlotRules(is_root=True))


class Finding(NamedTuple):
    """The result of a check.

    Attributes:
        check: Which check: `version`, `clock`, `namespace`, `kinds`, `rights`, `controllers` or
            `sharding`.
        is_wrong: Whether something has to be done.
        text: The finding and its remedy.
    """

    check: str
    is_wrong: bool
    text: str


class Wanted(NamedTuple):
    """The needs of the controllers to run.

    Attributes:
        rights: The rights that they need.
        namespace: The namespaces to work in, separated by commas; empty for all.
        changes: Whether the namespaces may change: rights in them are missed when they are used, in each by itself.
        takes_over: Whether they take the place of the cluster's own.
        lease: The Lease of leader election; None without election.
        shards_in: The namespace of the Leases of sharding; empty without sharding.
        kinds: The kinds that they watch, to check that the server has them. Running controllers log that themselves.
        metrics_secure: Whether the API server is asked who may read the metrics.
        certificates: The rights for the certificates of webhooks, where kcr makes them.
        names: The controllers, as `--controllers` names them.
    """

    rights: frozenset[Right]
    namespace: str = ""
    changes: bool = False
    takes_over: bool = False
    lease: Key | None = None
    shards_in: str = ""
    kinds: frozenset[ResourceType] = frozenset()
    metrics_secure: bool = False
    certificates: frozenset["Need"] = frozenset()
    names: str = ""

    @property
    def shares_jobs(self) -> bool:
        """Whether they choose their Jobs by `spec.managedBy`, as the Job controller does beside the cluster's own."""
        return not self.takes_over and Right("batch", "jobs/status", "patch") in self.rights


class ServerVersion(NamedTuple):
    """The version that a server reports to every client.

    Attributes:
        version: Its version, such as `v1.36.2`.
        skew_seconds: How far its clock is ahead of ours; None when it does not send the time.
    """

    version: str
    skew_seconds: float | None


class _ListMetadata(Object):
    shard_info: Mapping[str, Any] = {}


class _List(Object):
    metadata: _ListMetadata = _ListMetadata()


async def check_cluster(
    client: Client,
    wanted: Wanted,
    clock: Clock,
    permissions: Permissions | None = None,
    server: ServerVersion | None = None,
) -> list[Finding]:
    """Check the cluster before controllers run, without writing.

    Args:
        client: Reaches the server as the identity that the controllers will have.
        wanted: The needs of the controllers.
        clock: This machine's time.
        permissions: The rights as the server reported them; None when unknown.
        server: The version from `ask_version`; None to ask it.

    Raises:
        ApiError: The server does not report its version.
        TransportError: It does not answer.
    """
    permissions = permissions or Permissions(client)
    server = server or await ask_version(client, clock)
    return [
        version_finding(server.version, wanted),
        skew_finding(server.skew_seconds),
        *await _namespaces(client, permissions, wanted),
        *(await _kinds(client, wanted) if wanted.kinds else []),
        await _rights(permissions, wanted),
        *([await _other_controllers(client, permissions, wanted, clock.now())] if wanted.takes_over else []),
    ]


def version_finding(version: str, wanted: Wanted) -> Finding:
    """Judge the server's version, such as `v1.36.2`."""
    found = re.match("v([0-9]{1,9})[.]([0-9]{1,9})", version)
    number = (int(found[1]), int(found[2])) if found else OLDEST
    if number == (0, 0):
        return Finding("version", False, f"server {version}, a development build: its version is not compared")
    if wanted.shares_jobs and number < MANAGED_BY_SINCE:
        text = f"{version} drops spec.managedBy, by which Jobs are shared"
        return Finding("version", True, f"{text}: take over with --take-over, or upgrade to v1.32")
    if number < OLDEST:
        return Finding("version", True, f"{version} is older than what kcr supports: upgrade the cluster to v1.31")
    newer = f", newer than v{NEWEST[0]}.{NEWEST[1]}, the newest that kcr is tested with" if number > NEWEST else ""
    return Finding("version", False, f"server {version}{newer}")


def skew_finding(skew: float | None) -> Finding:
    """Judge how many seconds the server's clock is ahead of ours; None when it does not send the time."""
    if skew is None or abs(skew) <= TOLERATED_SKEW_SECONDS:
        return Finding("clock", False, "not told" if skew is None else "in step with the server's")
    text = f"{abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the server's, and deadlines with it"
    return Finding("clock", True, f"{text}: synchronise the machine's time (NTP)")


async def ask_version(client: Client, clock: Clock) -> ServerVersion:
    """Ask a server for its version, and for the time by the way.

    Raises:
        ApiError: It refuses, or is not an API server.
        TransportError: It does not answer.
    """

    async def ask(request: Request) -> ServerVersion:
        async with client.exchange(request) as response:
            body, headers = await response.read(), response.headers
            if response.status >= 300:
                raise error_from(response.status, headers, body, request.method, request.target)
            return ServerVersion(version_in(body), _skew(headers.get("date"), clock))

    return await with_retries(Request("GET", "/version", {"accept": "application/json"}), ask)


def _skew(date: str | None, clock: Clock) -> float | None:
    # One that is no date tells no time.
    with suppress(ValueError, TypeError):
        return (parsedate_to_datetime(date) - clock.now()).total_seconds() if date else None
    return None


async def _kinds(client: Client, wanted: Wanted) -> list[Finding]:
    """Check whether the server serves the kinds in these versions, and the status where they write it.

    Those that it does not disclose count as served.
    """
    missing: list[str] = []
    lacking: list[str] = []
    written = {(right.group, right.resource) for right in wanted.rights}
    for api_version, kinds in groupby(sorted(wanted.kinds), lambda kind: kind.api_version):
        with suppress(KcrError, msgspec.DecodeError):
            served = await served_resources(client, api_version)
            for kind in kinds:
                if kind.plural not in served:
                    missing.append(await _name_unserved(client, kind))
                    continue
                status = f"{kind.plural}/status"
                if status not in served and (kind.group, status) in written:
                    lacking.append(f"{status} of {api_version}")
    findings = []
    if missing:
        remedy = (
            "install the CustomResourceDefinition, or a version of the cluster that has it; controllers wait for it"
        )
        findings.append(Finding("kinds", True, f"not served: {', '.join(missing)}: {remedy}"))
    if lacking:
        remedy = "add `subresources: {status: {}}` to this version in the CustomResourceDefinition"
        findings.append(Finding("kinds", True, f"cannot be written: {', '.join(lacking)}: {remedy}"))
    return findings or [Finding("kinds", False, "all are served")]


async def _name_unserved(client: Client, kind: ResourceType) -> str:
    versions = await versions_serving(client, kind.kind)
    # Its own one where the plural is wrong alone.
    other = f" (but {kind.kind} of {versions})" if versions and versions != kind.api_version else ""
    return f"{kind.plural} of {kind.api_version}{other}"


def needs_of(wanted: Wanted) -> list[Need]:
    """Return all rights that are needed, and where."""
    spaces = namespaces_in(wanted.namespace)
    known = sorted(right for right in wanted.rights if not (wanted.changes and right.namespaced))
    needs = [Need.of(right, namespace) for namespace in spaces for right in known]
    if wanted.lease is not None:
        needs += [lease_need(right, wanted.lease) for right in sorted(LEASE_RIGHTS)]
    if wanted.shards_in:
        needs += [Need.of(right, wanted.shards_in) for right in sorted(SHARDING_RIGHTS)]
    if wanted.metrics_secure:
        needs += [Need.of(right, "") for right in sorted(METRICS_RIGHTS)]
    return needs + sorted(wanted.certificates)


def lease_need(right: Right, lease: Key) -> Need:
    """Return the need of an elector: a role may name its Lease, except where it is created."""
    is_named = right.resource == "leases" and right.verb != "create"
    return Need.of(right, lease.namespace)._replace(name=lease.name if is_named else "")


async def _rights(permissions: Permissions, wanted: Wanted) -> Finding:
    answers = await permissions.ask(needs_of(wanted))
    missing: dict[str, list[Right]] = defaultdict(list)
    for need, granted in answers.items():
        if granted is False:
            missing[need.namespace].append(need.right)
    if missing:
        text = "; ".join(missing_rights(found, namespace) for namespace, found in missing.items())
        options = f" --controllers {wanted.names}" if wanted.names else ""
        options += " --leader-elect" if wanted.lease is not None else ""
        options += " --shards" if wanted.shards_in else ""
        options += " --metrics-secure" if wanted.metrics_secure else ""
        return Finding("rights", True, f"{text}: grant them with the role that `kcr rbac generate{options}` writes")
    if any(granted is None for granted in answers.values()):
        return Finding("rights", False, "not told: the server answers no SelfSubjectAccessReview")
    return Finding("rights", False, f"all {len(answers)} are granted")


def missing_rights(missing: Iterable[Right], namespace: str) -> str:
    """Return the rights that RBAC does not grant, in one line."""
    verbs: dict[tuple[str, str], list[str]] = defaultdict(list)
    for right in missing:
        verbs[right.resource, right.group].append(right.verb)
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    words = (
        f"{', '.join(found)} {resource}{f'.{group}' if group else ''}" for (resource, group), found in verbs.items()
    )
    return f"cannot {'; '.join(words)} {where}"


async def _namespaces(client: Client, permissions: Permissions, wanted: Wanted) -> list[Finding]:
    elected_in = wanted.lease.namespace if wanted.lease is not None else ""
    uses = {
        **dict.fromkeys(namespaces_in(wanted.namespace), "nothing is reconciled"),
        elected_in: "no replica is elected",
        wanted.shards_in: "no replica takes a shard",
    }
    found = []
    for namespace in filter(None, uses):
        # A role of one namespace need not allow to read it; then nothing is known.
        text, is_wrong = f'not told: "{namespace}" cannot be read', False
        if await permissions.has(_READ_NAMESPACE, namespace):
            with suppress(KcrError):
                is_there = await _exists(client, namespace)
                text, is_wrong = f'"{namespace}" exists', not is_there
                if is_wrong:
                    text = f'"{namespace}" does not exist, {uses[namespace]}: create it, or name another'
        found.append(Finding("namespace", is_wrong, text))
    return found


async def _exists(client: Client, namespace: str) -> bool:
    try:
        await client.get(Namespace, Key("", namespace))
    except NotFoundError:
        return False
    return True


async def _other_controllers(client: Client, permissions: Permissions, wanted: Wanted, now: datetime) -> Finding:
    """Search for kube-controller-manager in the status of Jobs and CronJobs, and in its lease."""
    remedy = "start it with --controllers=*,-job-controller,-ttl-after-finished-controller,-cronjob-controller"
    unread = []
    for plural, kind in _STATUSES.items():
        if Right("batch", plural, "list") not in wanted.rights:
            continue
        lists = [await _list_managed(client, plural, namespace) for namespace in namespaces_in(wanted.namespace)]
        if None in lists:
            unread.append(f"{kind}s")
        for written in chain.from_iterable(filter(None, lists)):
            if ago := _written_ago(written.metadata, now):
                which = f"{kind} {written.metadata.namespace}/{written.metadata.name}"
                text = f"{_MANAGER} has written the status of {which} {ago} s ago"
                return Finding("controllers", True, f"{text}: {remedy}")
    if unread:
        return Finding("controllers", False, f"not told: {' and '.join(unread)} cannot be listed")
    return await _manager_lease(client, permissions, now)


async def _manager_lease(client: Client, permissions: Permissions, now: datetime) -> Finding:
    key = Key("kube-system", _MANAGER)
    if not await permissions.has(_READ_LEASE, key.namespace):
        return Finding("controllers", False, _LEASE_UNREAD)
    try:
        spec = (await client.get(Lease, key)).spec
    except NotFoundError:
        return Finding("controllers", False, "no other controller is seen")
    except KcrError:
        return Finding("controllers", False, _LEASE_UNREAD)
    if spec.renew_time is not None and now - spec.renew_time < _RECENT:
        text = f"{_MANAGER} runs, and has not written the status of a Job lately: see that its Job controllers are off"
        return Finding("controllers", False, text)
    return Finding("controllers", False, "no other controller is seen")


def _written_ago(metadata: ManagedObjectMeta, now: datetime) -> str:
    """Return how many seconds ago kube-controller-manager wrote a status; empty when it did not, or long ago."""
    last = metadata.status_writers.get(_MANAGER)
    return f"{(now - last).total_seconds():.0f}" if last is not None and now - last < _RECENT else ""


async def _list_managed(client: Client, plural: str, namespace: str) -> tuple[ManagedObject, ...] | None:
    where = f"namespaces/{namespace}/{plural}" if namespace else plural
    try:
        body = await client.request("GET", f"/apis/batch/v1/{where}?limit={_OBJECTS}")
        return codec.decode(ManagedObjectList, body).items
    except (KcrError, msgspec.DecodeError):
        return None


async def filter_finding(client: Client, selections: Iterable[Selection[Any]]) -> Finding:
    """Return which of the two filters unlabelled objects by their shard: the API server, or kcr.

    Args:
        client: Lists one object of the first kind that can be listed.
        selections: The objects to watch.

    Source: KEP-5866: `metadata.shardInfo` of a list is present where the server has obeyed the `shardSelector`.
    """
    for selection in sorted(selections, key=str):
        try:
            body = await client.request("GET", selection._replace(slots=_HALF).target({"limit": 1}))
            has_filtered = bool(codec.decode(_List, body).metadata.shard_info)
        except (KcrError, msgspec.DecodeError):
            continue
        return Finding("sharding", False, _FILTERS if has_filtered else _FILTERS_NOT)
    return Finding("sharding", False, _NOT_TOLD)
