"""The web page of the debug port, served with states that a test chooses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from kcr.serving.debug.routes import page_headers, page_html
from kcr.serving.debug.state import DebugState, KeyDetail
from kcr_devcluster.dev.cluster_pages import cluster_page
from kcr_devcluster.dev.cluster_state import ClusterOverview
from kcr_devcluster.dev.metric_history import MetricHistory


class ShownProcess:
    """What the process answers; change its attributes at any time.

    Attributes:
        url: The page's address.
        state: Its state.
        details: What is known of the key that is asked for.
        cluster: Its Jobs and pods; None for a process that is no `kcr dev`.
        job_pods: The answer for one Job.
        log: The log of each pod.
        metrics: Its metrics; None for none.
        questions: The paths that were asked for, with their queries.
    """

    def __init__(self, state: DebugState) -> None:
        self.url = ""
        self.state = state
        self.details: tuple[KeyDetail, ...] = ()
        self.cluster: ClusterOverview | None = None
        self.job_pods: ClusterOverview | None = None
        self.log = ""
        self.metrics: MetricHistory | None = None
        self.questions: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request as the debug port does."""
        self.questions.append(str(request.rel_url))
        match request.path.removeprefix("/debug/kcr"):
            case "":
                page = cluster_page() if self.cluster is not None else None
                html, headers = (page.body, page.headers) if page else (page_html(), page_headers(page_html()))
                return web.Response(body=html, content_type="text/html", charset="utf-8", headers=headers)
            case "/state":
                return self._json(self.state)
            case "/key":
                return self._json(self.details)
            case "/cluster" if self.cluster is not None:
                return self._json(self.job_pods if "job" in request.query else self.cluster)
            case "/logs" if self.cluster is not None:
                return web.Response(text=self.log)
            case "/metrics" if self.metrics is not None:
                return self._json(self.metrics.since(float(request.query.get("since", 0))))
        return web.Response(status=404, text="404 page not found\n")

    def _json(self, value: object) -> web.Response:
        return web.Response(body=msgspec.json.encode(value), content_type="application/json")


@asynccontextmanager
async def showing(state: DebugState) -> AsyncIterator[tuple[ShownProcess, web.ServerRunner]]:
    """Serve the page of a process on a free port, and give it with its server, whose `cleanup` ends the process."""
    process = ShownProcess(state)
    runner = web.ServerRunner(web.Server(process.answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        process.url = f"http://127.0.0.1:{runner.addresses[0][1]}/debug/kcr"
        yield process, runner
    finally:
        await runner.cleanup()
