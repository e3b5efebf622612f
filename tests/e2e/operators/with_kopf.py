"""An operator of Widgets written with kopf, as its documentation teaches it."""

from typing import Any

import kopf


@kopf.on.create("widgets.example.com")
@kopf.on.update("widgets.example.com")
def paint(spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, **_: Any) -> None:
    patch.status["painted"] = spec["colour"]


@kopf.on.delete("widgets.example.com")
def bury(name: str, **_: Any) -> None:
    print("buried", name, flush=True)
