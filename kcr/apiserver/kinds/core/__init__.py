"""Core kinds on the embedded server: defaults, preparation and validation."""

from kcr.apiserver.kinds.core.cluster_kinds import NamespaceStrategy, NodeStrategy
from kcr.apiserver.kinds.core.data_kinds import ConfigMapStrategy, SecretStrategy
from kcr.apiserver.kinds.core.generic import GenericStrategy, IdleStrategy
from kcr.apiserver.kinds.core.limit_kinds import LimitRangeStrategy, ResourceQuotaStrategy
from kcr.apiserver.kinds.core.pod import PodStrategy
from kcr.apiserver.kinds.core.record_kinds import EventStrategy, LeaseStrategy

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
