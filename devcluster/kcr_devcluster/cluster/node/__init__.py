"""The node of the embedded cluster: a kubelet that runs pods, as processes or as a simulation."""

from kcr_devcluster.cluster.node.logs import Logs
from kcr_devcluster.cluster.node.node import NodeAgent
from kcr_devcluster.cluster.node.simulated import FOREVER, OnRun, RunResult

__all__ = ["FOREVER", "Logs", "NodeAgent", "OnRun", "RunResult"]
