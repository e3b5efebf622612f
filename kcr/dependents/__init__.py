"""Objects that a controller makes for another object: who owns them, and how many are made at once."""

from kcr.dependents.ownership import controller_reference, is_controlled_by
from kcr.dependents.slow_start import Attempts, Failure, slow_start

__all__ = ["Attempts", "Failure", "controller_reference", "is_controlled_by", "slow_start"]
