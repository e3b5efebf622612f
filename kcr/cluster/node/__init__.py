"""The node of the embedded cluster: it runs pods, as processes or as a simulation."""

from kcr.cluster.node.images import ImageCommand
from kcr.cluster.node.logs import Logs
from kcr.cluster.node.node import Node
from kcr.cluster.node.outcome import FOREVER, Outcome
from kcr.cluster.node.pods import RunnablePod

__all__ = ["FOREVER", "ImageCommand", "Logs", "Node", "Outcome", "RunnablePod"]
