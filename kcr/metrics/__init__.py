"""Metrics under upstream's names, in a registry of their own.

Nothing here is global: each manager has its `Metrics`, so that two in one process do not meet. Queues, controllers
and clients count in objects of their own, with plain numbers; the registry converts them into series when it is read.
"""

from kcr.metrics.client_go import QUEUE_BUCKETS, HostRequests, QueueMetrics
from kcr.metrics.components import ControllerMetrics, Outcome
from kcr.metrics.registry import Metrics
from kcr.metrics.table import Histogram, MetricsTable, Row

__all__ = [
    "QUEUE_BUCKETS", "ControllerMetrics", "Histogram", "HostRequests", "Metrics", "MetricsTable", "Outcome",
    "QueueMetrics", "Row",
]  # fmt: skip
