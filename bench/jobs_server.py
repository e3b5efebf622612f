"""An embedded server in a process of its own: `python -m bench.jobs_server KUBECONFIG MILLISECONDS [sharded] [pods=N]`.

It serves HTTPS and counts what it is asked, as kube-apiserver does at `/metrics`. No node and no garbage collector
run beside it. It ends when its stdin does, so that it never outlives whoever started it. A write may be made to take
its time, as it does where etcd puts it on disks. With `sharded` it obeys the `shardSelector` of lists and watches.
With `pods` it begins with so many running pods, which no controller has to do with.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from bench.jobs_requests import page, verb_and_resource
from bench.pods import pod
from kcr.app.process import fast_loop, tune_gc
from kcr.clock import SystemClock
from kcr_devcluster.apiserver.kinds.catalogue import PODS
from kcr_devcluster.apiserver.protocol.responses import APIResponse, json_response, text_response
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster.listener import Listener, ServerAddress

# Where the moments stand at which objects were created, as seconds of the epoch: `/created/jobs`.
CREATED = "/created/"
END_SECONDS = 10.0


class CountingServer(APIServer):
    """The embedded server with an account of what it was asked."""

    def __init__(self, write_seconds: float, *, is_sharded: bool, pods: int = 0) -> None:
        self._clock = SystemClock()
        self._write_seconds = write_seconds
        storage = Storage()
        super().__init__(storage, clock=self._clock, random=random.Random(), sharded_list_and_watch=is_sharded)
        for number in range(pods):
            manifest = pod(number, 1)
            del manifest["metadata"]["finalizers"]
            storage.put(PODS, manifest, None)
        self._asked: Counter[tuple[str, str]] = Counter()
        self._created: dict[str, list[float]] = {}

    async def handle(self, request: HTTPRequest) -> APIResponse:
        """Answer one request, and count it."""
        if request.target == "/metrics":
            return text_response(200, page(self._asked))
        if request.target.startswith(CREATED):
            return json_response(msgspec.json.encode(self._created.get(request.target.removeprefix(CREATED), [])))
        about = verb_and_resource(request.method, request.target)
        if self._write_seconds and request.method != "GET":
            await asyncio.sleep(self._write_seconds)
        answer = await super().handle(request)
        if about is not None:
            self._asked[about] += 1
            if about[0] == "POST" and answer.status == 201:
                self._created.setdefault(about[1], []).append(self._clock.now().timestamp())
        return answer


async def main(kubeconfig: Path, write_seconds: float, *options: str) -> None:
    """Serve until stdin ends."""
    pods = sum(int(option.removeprefix("pods=")) for option in options if option.startswith("pods="))
    listener = Listener(CountingServer(write_seconds, is_sharded="sharded" in options, pods=pods))
    tune_gc()
    _announce(await listener.open(0), kubeconfig)
    try:
        await asyncio.to_thread(sys.stdin.read)
    finally:
        await listener.close()


def _announce(address: ServerAddress, kubeconfig: Path) -> None:
    kubeconfig.write_text(address.kubeconfig)
    print("ready", flush=True)


@asynccontextmanager
async def embedded_server(
    folder: Path, *, write_ms: float = 0.0, is_sharded: bool = False, pods: int = 0
) -> AsyncIterator[tuple[Path, psutil.Process]]:
    """Run a server for as long as the context lives; give its kubeconfig and its process.

    Args:
        folder: For its kubeconfig.
        write_ms: How long each write takes at least.
        is_sharded: Whether it obeys `shardSelector`.
        pods: How many running pods it begins with.
    """
    kubeconfig = folder / "kubeconfig"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.jobs_server", str(kubeconfig), str(write_ms),
        *(["sharded"] if is_sharded else []), f"pods={pods}",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != b"ready\n":
            raise RuntimeError("the embedded server does not start")
        yield kubeconfig, psutil.Process(process.pid)
    finally:
        process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        if process.returncode is None:
            process.kill()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(main(Path(sys.argv[1]), float(sys.argv[2]) / 1000, *sys.argv[3:]))
