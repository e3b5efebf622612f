"""Defects of the Job controller that scenarios with policies must find; see tests/chaos/planting.py."""

from tests.chaos.planting import Edit, defect

DEFECTS = (defect("refused-requests-are-not-repeated", Edit("_sync", "raise A")),)
