"""How many replicas: the part that Deployments, StatefulSets and custom kinds have in common."""

from kcr.api.meta import FullResource, Object


class ScaleSpec(Object):
    """How many replicas are wanted."""

    replicas: int = 0


class ScaleStatus(Object):
    """How many replicas there are; `selector` is the text that finds their pods."""

    replicas: int = 0
    selector: str = ""


class Scale(FullResource, api_version="autoscaling/v1", plural="scales"):
    """The scale of an object, under that object's name; the server has no list of them."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
