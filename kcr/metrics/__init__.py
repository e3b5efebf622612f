"""Metrics under the names the field knows, in a registry of their own.

Nothing here is global: each manager has its `Metrics`, so that two in one process do not meet. Whoever records gets
an object for its part, with plain numbers in it; series are made of them when somebody reads.
"""

from kcr.metrics.controllers import ControllerMetrics, Outcome
from kcr.metrics.queues import QUEUE_BUCKETS, QueueMetrics
from kcr.metrics.registry import Metrics

__all__ = ["QUEUE_BUCKETS", "ControllerMetrics", "Metrics", "Outcome", "QueueMetrics"]
