"""What an API server was asked, by verb and resource: its own count, which is that of the whole cluster."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client.parser import text_string_to_metric_families

from kcr.client import Request, Response, Transport

FAMILY = "apiserver_request_total"


def verb_and_resource(method: str, target: str) -> tuple[str, str] | None:
    """Return what a request is about as the server counts it, such as `PATCH` and `pods/status`; None for no object.

    Source: kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/metrics/metrics.go, RecordRequestTermination.
    """
    path, _, query = target.partition("?")
    match path.strip("/").split("/"):
        case ["api", _, *steps] | ["apis", _, _, *steps] if steps:
            if steps[0] == "namespaces" and len(steps) > 2:
                steps = steps[2:]
        case _:
            return None
    resource, name, *subresource = [*steps, ""][: max(2, len(steps))]
    verb = method
    if not name and method == "GET":
        verb = "WATCH" if "watch=" in query else "LIST"
    elif not name and method == "DELETE":
        verb = "DELETECOLLECTION"
    return verb, "/".join((resource, *subresource))


def page(counts: Counter[tuple[str, str]]) -> str:
    """Return counts as a server's `/metrics` has them."""
    lines = [f"# TYPE {FAMILY} counter"]
    for (verb, resource), count in counts.items():
        plural, _, subresource = resource.partition("/")
        lines.append(f'{FAMILY}{{verb="{verb}",resource="{plural}",subresource="{subresource}"}} {count}')
    return "\n".join((*lines, ""))


def read_page(text: str) -> Counter[tuple[str, str]]:
    """Return the counts in a server's `/metrics`."""
    counts: Counter[tuple[str, str]] = Counter()
    # The page of kube-apiserver has some megabytes; only these lines are of interest.
    lines = "\n".join(line for line in text.splitlines() if line.startswith(FAMILY + "{"))
    for family in text_string_to_metric_families(lines + "\n"):
        for sample in family.samples:
            labels = sample.labels
            resource = "/".join(filter(None, (labels.get("resource"), labels.get("subresource"))))
            counts[labels["verb"], resource] += int(sample.value)
    return counts


class CountingTransport:
    """Counts what it sends, so that it can be taken off the server's count."""

    def __init__(self, inner: Transport) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()
        self._inner = inner

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        about = verb_and_resource(request.method, request.target)
        if about is not None:
            self.sent[about] += 1
        async with self._inner.send(request) as response:
            yield response
