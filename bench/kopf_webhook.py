"""The program of `bench webhooks` on kopf: the same validator, and the same blocked loop."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import kopf

from bench.kcr_webhook import BLOCKED_SECONDS


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    """Serve where the caller calls, and block the loop like the other candidate."""
    certificate = os.environ["BENCH_CERTIFICATE"]
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", port=int(os.environ["BENCH_PORT"]), certfile=certificate, pkeyfile=certificate
    )
    settings.posting.enabled = False
    asyncio.get_running_loop().call_later(0.5, _block)


def _block() -> None:
    if Path(os.environ["BENCH_BLOCK"]).exists():
        time.sleep(BLOCKED_SECONDS)
    asyncio.get_running_loop().call_later(0.5, _block)


@kopf.on.validate("", "v1", "configmaps", id="review")
async def review(body: kopf.Body, **_: Any) -> None:
    """Deny empty values."""
    if not all(body.get("data", {}).values()):
        raise kopf.AdmissionError("there is an empty value")
