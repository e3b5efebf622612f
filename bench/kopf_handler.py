"""What `kopf run` loads: counts pod events, and ends with its figures when it has seen enough."""

import json
import os
import time

import kopf
import psutil

WANTED = int(os.environ["BENCH_EVENTS"])
_seen = 0
_began = time.process_time()


@kopf.on.startup()
def quiet(settings: kopf.OperatorSettings, **_: object) -> None:
    """Post no events: the other candidates post none."""
    settings.posting.enabled = False


@kopf.on.event("", "v1", "pods")
async def on_pod(**_: object) -> None:
    """Count."""
    global _seen  # noqa: PLW0603  # kopf knows functions only
    _seen += 1
    if _seen == WANTED:
        figures = {"cpu": time.process_time() - _began, "rss": psutil.Process().memory_info().rss}
        print(json.dumps(figures), flush=True)
        os._exit(0)
