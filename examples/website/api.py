"""The kind Website: what its users write into the spec, and what the controller tells them in the status."""

from typing import Annotated

import msgspec

import kcr


class WebsiteSpec(kcr.Object):
    """The page of a website, and the pods that serve it.

    Attributes:
        title: What the list of all websites says of it.
        html: The page.
        replicas: How many pods serve it.
        image: The image of their container; it has Python.
    """

    title: str
    html: str
    replicas: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    image: str = "python:3"


class WebsiteStatus(kcr.Object):
    """What has become of the spec.

    Attributes:
        observed_generation: The generation of the spec that the rest is about.
        ready: How many pods serve the page.
        conditions: `Ready` holds when all pods serve the present page.
    """

    observed_generation: int | None = None
    ready: int | None = None
    conditions: Annotated[tuple[kcr.Condition, ...], kcr.ListType("map", keys=("type",))] = ()


class Website(
    kcr.Resource,
    api_version="example.dev/v1",
    plural="websites",
    storage=True,
    categories=("all",),
    columns=(
        kcr.PrinterColumn("Replicas", ".spec.replicas"),
        kcr.PrinterColumn("Ready", ".status.ready"),
        kcr.PrinterColumn("Age", ".metadata.creationTimestamp", type="date"),
    ),
    scale=kcr.ScaleSubresource(status_path=".status.ready"),
):
    """A page that some pods serve."""

    spec: WebsiteSpec
    status: WebsiteStatus = WebsiteStatus()
