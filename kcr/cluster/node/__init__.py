"""The node of the embedded cluster: a kubelet that runs pods, as processes or as a simulation."""

from kcr.cluster.node.environment import ImageCommand
from kcr.cluster.node.logs import Logs
from kcr.cluster.node.node import Node
from kcr.cluster.node.simulated import FOREVER, OnRun, Outcome

__all__ = ["FOREVER", "ImageCommand", "Logs", "Node", "OnRun", "Outcome"]
