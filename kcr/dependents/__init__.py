"""Objects that a controller makes for another object: how many are made at once."""

from kcr.dependents.slow_start import Attempts, Failure, slow_start

__all__ = ["Attempts", "Failure", "slow_start"]
