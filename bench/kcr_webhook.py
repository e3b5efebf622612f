"""The program of `bench webhooks` on kcr: a validator, and a loop that is blocked when the file is there."""

import asyncio
import os
import time
from pathlib import Path

import kcr
from kcr.api.core import ConfigMap

BLOCKED_SECONDS = 2.0


class Validator:
    """Allows everything that it has looked at."""

    async def validate_create(self, obj: ConfigMap, request: kcr.WebhookRequest) -> None:
        """Deny empty values."""
        if not all(obj.data.values()):
            raise kcr.Denied("there is an empty value", field="data")


class Blocker:
    """Blocks the loop again and again, once the file is there."""

    async def run(self) -> None:
        """Look for the file."""
        while True:
            if Path(os.environ["BENCH_BLOCK"]).exists():  # noqa: ASYNC240  # blocks on purpose
                time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251  # blocks on purpose
            await asyncio.sleep(0.5)


def setup(manager: kcr.Manager) -> None:
    """Add both."""
    manager.add_webhook(ConfigMap, Validator())
    manager.add(Blocker())


if __name__ == "__main__":
    certificate = Path(os.environ["BENCH_CERTIFICATE"])
    kcr.run(
        setup, args=[], webhook_port=int(os.environ["BENCH_PORT"]), webhook_cert_dir=str(certificate.parent),
        webhook_cert_name=certificate.name, webhook_key_name=certificate.name,
    )  # fmt: skip
