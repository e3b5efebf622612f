"""Kinds that show the objects of another kind: a second API group or version over one storage."""

from kcr_devcluster.apiserver.kinds.views.autoscalers import AUTOSCALERS_V1
from kcr_devcluster.apiserver.kinds.views.events import NEW_EVENTS

VIEWS = (NEW_EVENTS, AUTOSCALERS_V1)

__all__ = ["VIEWS"]
