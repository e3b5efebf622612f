"""Checks of a cluster before controllers run on it: rights, version, clock, and who else reconciles the same objects.

Each finding is one line with the remedy. `kcr check` prints them all; `kcr run` logs at its start those that are wrong.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.api.meta import Key, Object
from kcr.app.permissions import Need, Permissions
from kcr.app.rbac import LEASE_RIGHTS, METRICS_RIGHTS
from kcr.client import Client, Request
from kcr.clock import Clock
from kcr.controller import Right
from kcr.errors import KcrError, NotFoundError

# What the controllers are tested with; `spec.managedBy`, by which Jobs are shared, is on by default from the second on.
OLDEST, MANAGED_BY_SINCE = (1, 31), (1, 32)
# HTTP dates have whole seconds.
TOLERATED_SKEW_SECONDS = 5.0
# So many Jobs are looked at, and a write so long ago counts.
_JOBS, _RECENT = 100, timedelta(minutes=10)
_MANAGER = "kube-controller-manager"


class Finding(NamedTuple):
    """What a check has found.

    Attributes:
        check: Which check: `rights`, `version`, `clock` or `controllers`.
        is_wrong: Whether something has to be done.
        text: What is there, and what to do.
    """

    check: str
    is_wrong: bool
    text: str


class Wanted(NamedTuple):
    """What the controllers that are to run need.

    Attributes:
        rights: What they ask of the server.
        namespace: The one namespace to work in; empty for all.
        takes_over: Whether they take the place of the cluster's own.
        shares_jobs: Whether they choose their Jobs by `spec.managedBy`.
        election_namespace: Where the Lease of leader election is; empty without election.
        metrics_secure: Whether the API server is asked who may read the metrics.
    """

    rights: frozenset[Right]
    namespace: str = ""
    takes_over: bool = False
    shares_jobs: bool = False
    election_namespace: str = ""
    metrics_secure: bool = False


class _Writer(Object):
    manager: str = ""
    subresource: str = ""
    time: datetime | None = None


class _WrittenMeta(Object):
    name: str = ""
    namespace: str = ""
    managed_fields: tuple[_Writer, ...] = ()


class _Written(Object):
    metadata: _WrittenMeta = _WrittenMeta()


class _Jobs(Object):
    items: tuple[_Written, ...] = ()


async def check_cluster(
    client: Client, wanted: Wanted, clock: Clock, permissions: Permissions | None = None
) -> list[Finding]:
    """Look at all that can be known before the controllers run; nothing is written.

    Args:
        client: Reaches the server as the identity that the controllers will have.
        wanted: What they need.
        clock: This machine's time.
        permissions: What is known of the rights; None for nothing.

    Raises:
        ApiError: The server does not tell its version.
        TransportError: It does not answer.
    """
    version, skew = await _version_and_skew(client, clock)
    return [
        version_finding(version, wanted),
        skew_finding(skew),
        await _rights(permissions or Permissions(client), wanted),
        *([await _other_controllers(client, clock)] if wanted.takes_over else []),
    ]


def version_finding(version: str, wanted: Wanted) -> Finding:
    """Judge the server's version, such as `v1.36.2`."""
    found = re.match(r"v(\d+)\.(\d+)", version)
    number = (int(found[1]), int(found[2])) if found else OLDEST
    if wanted.shares_jobs and number < MANAGED_BY_SINCE:
        text = f"{version} drops spec.managedBy, by which Jobs are shared"
        return Finding("version", True, f"{text}: take over with --take-over, or upgrade to v1.32")
    if number < OLDEST:
        return Finding("version", True, f"{version} is older than what kcr supports: upgrade the cluster to v1.31")
    return Finding("version", False, f"server {version}")


def skew_finding(skew: float | None) -> Finding:
    """Judge how many seconds the server's clock is ahead of ours; None when it does not tell the time."""
    if skew is None or abs(skew) <= TOLERATED_SKEW_SECONDS:
        return Finding("clock", False, "not told" if skew is None else "in step with the server's")
    text = f"{abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} the server's, and deadlines with it"
    return Finding("clock", True, f"{text}: synchronise the machine's time (NTP)")


async def _version_and_skew(client: Client, clock: Clock) -> tuple[str, float | None]:
    version = await client.server_version()
    async with client.exchange(Request("GET", "/version", {"accept": "application/json"})) as response:
        date = response.headers.get("date")
        await response.read()
    # One that is no date tells no time.
    with suppress(ValueError, TypeError):
        return version, (parsedate_to_datetime(date) - clock.now()).total_seconds() if date else None
    return version, None


def needs_of(wanted: Wanted) -> list[Need]:
    """Return all rights that are needed, and where."""
    needs = [Need.of(right, wanted.namespace) for right in sorted(wanted.rights)]
    if wanted.election_namespace:
        needs += [Need.of(right, wanted.election_namespace) for right in sorted(LEASE_RIGHTS)]
    if wanted.metrics_secure:
        needs += [Need.of(right, "") for right in sorted(METRICS_RIGHTS)]
    return needs


async def _rights(permissions: Permissions, wanted: Wanted) -> Finding:
    answers = await permissions.ask(needs_of(wanted))
    missing: dict[str, list[Right]] = defaultdict(list)
    for (right, namespace), granted in answers.items():
        if granted is False:
            missing[namespace].append(right)
    if missing:
        text = "; ".join(missing_rights(found, namespace) for namespace, found in missing.items())
        options = " --leader-elect" if wanted.election_namespace else ""
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


async def _other_controllers(client: Client, clock: Clock) -> Finding:
    """Look for kube-controller-manager: in the status of Jobs, and in its lease."""
    now = clock.now()
    remedy = "start it with --controllers=*,-job-controller,-ttl-after-finished-controller,-cronjob-controller"
    for job in await _jobs(client):
        for writer in job.metadata.managed_fields:
            if writer.manager == _MANAGER and writer.time is not None and now - writer.time < _RECENT:
                which, ago = f"{job.metadata.namespace}/{job.metadata.name}", (now - writer.time).total_seconds()
                text = f"{_MANAGER} has written the status of Job {which} {ago:.0f} s ago"
                return Finding("controllers", True, f"{text}: {remedy}")
    try:
        spec = (await client.get(Lease, Key("kube-system", _MANAGER))).spec
    except NotFoundError:
        return Finding("controllers", False, "no other controller is seen")
    except KcrError:
        text = "no other controller has written the status of a Job lately; its lease in kube-system cannot be read"
        return Finding("controllers", False, text)
    if spec.renew_time is not None and now - spec.renew_time < _RECENT:
        text = f"{_MANAGER} runs, and has not written the status of a Job lately: see that its Job controllers are off"
        return Finding("controllers", False, text)
    return Finding("controllers", False, "no other controller is seen")


async def _jobs(client: Client) -> tuple[_Written, ...]:
    try:
        return codec.decode(_Jobs, await client.request("GET", f"/apis/batch/v1/jobs?limit={_JOBS}")).items
    except (KcrError, msgspec.DecodeError):
        return ()
