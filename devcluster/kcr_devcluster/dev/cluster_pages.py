"""The pages of `kcr dev`'s debug port: more tabs of `/debug/kcr`, `/debug/kcr/cluster`, `…/logs` and `…/metrics`.

They only read, and before the first request only samples of the metrics are taken. Jobs, CronJobs, pods and events come
from stores that exist in any case, read on the port's thread, however busy the program's event loop is. Logs,
Deployments and explanations are read on the loop, from the cluster itself; while that is blocked, those of before are
shown.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import tzinfo
from functools import cache
from importlib import resources

import msgspec

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event, Pod
from kcr.api.meta import Key
from kcr.errors import KcrError
from kcr.manager import Manager
from kcr.serving.debug.access import ROOT
from kcr.serving.debug.routes import page_headers, page_html
from kcr.serving.ports import ProbeRequest, ProbeResponse, ProgramLoop
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.dev.cluster_overview import ClusterObjects, cluster_overview
from kcr_devcluster.dev.display.explanations import Explanations
from kcr_devcluster.dev.metric_history import Collector, MetricHistory

# Returns the end of a container's log: of a pod, the container (empty for the only one), and at most so many bytes.
ReadLog = Callable[[Key, str, int], bytes]

LOG_BYTES = 256 * 1024
# How long a log is waited for.
LOG_SECONDS = 2.0
# How long Deployments and explanations are waited for.
EXPLAIN_SECONDS = 0.5
# A longer number of lines is a slip of the finger.
_MAX_DIGITS = 10


class ClusterPages:
    """Answers requests for the Jobs, CronJobs and pods of a cluster, for the logs of pods, and for metrics."""

    def __init__(
        self, manager: Manager, zone: tzinfo, read_log: ReadLog, explanations: Explanations, server: Collector
    ) -> None:
        """Take the sources; call it on the program's event loop, before the manager runs.

        Args:
            manager: Its stores have the objects.
            zone: The zone of schedules that name none.
            read_log: Reads the end of a log, and raises StatusError when it cannot.
            explanations: Explains objects of the cluster.
            server: The metrics of the API server.
        """
        self._clock = manager.clock
        self._zone = zone
        self._read_log = read_log
        self._program = ProgramLoop()
        self._explanations = explanations
        self._jobs, self._cronjobs = manager.store(Job), manager.store(CronJob)
        self._pods, self._events = manager.store(Pod), manager.store(Event)
        self._history = MetricHistory([manager.metrics.registry, server], manager.clock)
        manager.add(self._history, needs_leader_election=False)

    @property
    def routes(self) -> Mapping[str, Callable[[ProbeRequest], Awaitable[ProbeResponse]]]:
        """The handlers by path, callable on any event loop."""
        return {
            ROOT: self._page,
            f"{ROOT}/cluster": self._cluster,
            f"{ROOT}/logs": self._logs,
            f"{ROOT}/metrics": self._metrics,
        }

    async def _page(self, request: ProbeRequest) -> ProbeResponse:
        return cluster_page()

    async def _cluster(self, request: ProbeRequest) -> ProbeResponse:
        """Return a `ClusterOverview` in JSON, with the pods of `?job=NAMESPACE/NAME`, or those of no Job."""
        name = _first(request, "job")
        try:
            job = Key.parse(name if "/" in name else f"default/{name}") if name else None
        except ValueError:
            return _refusal(400, f"{name!r} is not a Job: write job=NAMESPACE/NAME")
        jobs = self._jobs.snapshot()
        with suppress(TimeoutError, KcrError):
            await self._program.call(lambda: self._explanations.refresh(jobs, job), EXPLAIN_SECONDS)
        objects = ClusterObjects(
            jobs, self._cronjobs.snapshot(), self._pods.snapshot(), events=self._events.snapshot(),
            **self._explanations.last._asdict(),
        )  # fmt: skip
        shown = cluster_overview(objects, self._clock.now(), self._zone, job)
        return ProbeResponse(200, msgspec.json.encode(shown), "application/json")

    async def _metrics(self, request: ProbeRequest) -> ProbeResponse:
        """Return a `MetricsOverview` in JSON: the samples after `?since=`, in seconds since 1970, or all."""
        since = _first(request, "since") or "0"
        try:
            moment = float(since)
        except ValueError:
            moment = math.nan
        if not math.isfinite(moment):
            return _refusal(400, f"{since!r} is not a moment: write since=SECONDS, as in the last answer's times")
        return ProbeResponse(200, msgspec.json.encode(self._history.since(moment)), "application/json")

    async def _logs(self, request: ProbeRequest) -> ProbeResponse:
        """Return the end of a log as text: of `?namespace=&pod=&container=`, and of it the last `tail=` lines."""
        pod = Key(_first(request, "namespace") or "default", _first(request, "pod"))
        tail = _first(request, "tail")
        if not pod.name:
            return _refusal(400, "no pod is named: write namespace=NAMESPACE&pod=NAME")
        if tail and not (tail.isascii() and tail.isdecimal() and len(tail) < _MAX_DIGITS):
            return _refusal(400, f"{tail!r} is not a number of lines: write tail=100")
        try:
            container = _first(request, "container")
            text = await self._program.read(lambda: self._read_log(pod, container, LOG_BYTES), LOG_SECONDS)
        except StatusError as error:
            return _refusal(error.code, error.message)
        return ProbeResponse(200, _last_lines(text, int(tail)) if tail else text)


@cache
def cluster_page() -> ProbeResponse:
    """Return kcr's debug page with two more tabs, the first of which is opened first."""
    folder, names = resources.files("kcr_devcluster.dev"), ("cluster_page", "metrics_page")

    def files(kind: str) -> str:
        return "".join(folder.joinpath(f"{name}.{kind}").read_text(encoding="utf-8") for name in names)

    html = page_html(files("css"), files("js"))
    return ProbeResponse(200, html, "text/html; charset=utf-8", page_headers(html))


def _first(request: ProbeRequest, name: str) -> str:
    values = request.query.get(name) or ("",)
    return values[0]


def _refusal(status: int, line: str) -> ProbeResponse:
    return ProbeResponse(status, f"{line}\n".encode())


def _last_lines(text: bytes, count: int) -> bytes:
    start = len(text) - text.endswith(b"\n")
    for _ in range(count):
        start = text.rfind(b"\n", 0, start)
        if start < 0:
            return text
    return text[start + 1 :]
