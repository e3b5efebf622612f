"""Core kinds on the embedded server: defaults, preparation and validation."""

from kcr.embedded.core.cluster_kinds import NamespaceStrategy, NodeStrategy
from kcr.embedded.core.data_kinds import ConfigMapStrategy, SecretStrategy
from kcr.embedded.core.generic import GenericStrategy, IdleStrategy
from kcr.embedded.core.limit_kinds import LimitRangeStrategy, ResourceQuotaStrategy
from kcr.embedded.core.pod import PodStrategy
from kcr.embedded.core.record_kinds import EventStrategy, LeaseStrategy

__all__ = [
    "ConfigMapStrategy",
    "EventStrategy",
    "GenericStrategy",
    "IdleStrategy",
    "LeaseStrategy",
    "LimitRangeStrategy",
    "NamespaceStrategy",
    "NodeStrategy",
    "PodStrategy",
    "ResourceQuotaStrategy",
    "SecretStrategy",
]
