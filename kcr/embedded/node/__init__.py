"""The node of the embedded cluster: it runs pods, as processes or as a simulation."""

from kcr.embedded.node.images import ImageCommand
from kcr.embedded.node.logs import Logs
from kcr.embedded.node.node import Node
from kcr.embedded.node.outcome import FOREVER, Outcome
from kcr.embedded.node.pods import RunnablePod

__all__ = ["FOREVER", "ImageCommand", "Logs", "Node", "Outcome", "RunnablePod"]
