"""Admission webhooks of Widgets written with kopf, which writes their configurations as well."""

import os
from pathlib import Path
from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    folder = Path(os.environ["CERTIFICATES"])
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", host="127.0.0.1", certfile=folder / "tls.crt", pkeyfile=folder / "tls.key",
        cafile=folder / "ca.crt",
    )  # fmt: skip
    settings.admission.managed = "auto.kopf.dev"


@kopf.on.validate("widgets.example.com")
def check(spec: kopf.Spec, warnings: list[str], **_: Any) -> None:
    if spec["colour"] == "green":
        raise kopf.AdmissionError("green is sold out", code=422)
    if spec["colour"] == "pink":
        warnings.append("pink fades")


@kopf.on.mutate("widgets.example.com", operation="CREATE")
def paint(patch: kopf.Patch, **_: Any) -> None:
    patch.metadata["labels"] = {"painted": "yes"}
