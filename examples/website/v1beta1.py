"""The older version v1beta1 of the kind, in which the page has another name, and the conversions to and from v1."""

from typing import Annotated

import msgspec

import kcr
from examples.website.api import Website, WebsiteSpec, WebsiteStatus


class WebsiteV1Beta1Spec(kcr.Object):
    """The page of a website, and the pods that serve it.

    Attributes:
        title: The title in the list of all websites.
        page: The page; `html` in v1.
        replicas: The number of pods that serve it.
        image: The image of their container; it has Python.
    """

    title: str
    page: str
    replicas: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    image: str = "python:3"


class WebsiteV1Beta1(
    kcr.Resource, kind="Website", api_version="example.dev/v1beta1", plural="websites", deprecation_warning=""
):
    """A page that some pods serve."""

    spec: WebsiteV1Beta1Spec
    status: WebsiteStatus = WebsiteStatus()


@kcr.converts(WebsiteV1Beta1, Website)
def to_v1(old: WebsiteV1Beta1) -> Website:
    """Return the website in v1."""
    spec = WebsiteSpec(title=old.spec.title, html=old.spec.page, replicas=old.spec.replicas, image=old.spec.image)
    return Website(metadata=old.metadata, spec=spec, status=old.status)


@kcr.converts(Website, WebsiteV1Beta1)
def to_v1beta1(new: Website) -> WebsiteV1Beta1:
    """Return the website in v1beta1."""
    spec = WebsiteV1Beta1Spec(
        title=new.spec.title, page=new.spec.html, replicas=new.spec.replicas, image=new.spec.image
    )
    return WebsiteV1Beta1(metadata=new.metadata, spec=spec, status=new.status)
