"""Resource quotas and limit ranges: usage of objects, quotas with their sums, and the admission of new objects."""

from kcr.apiserver.quota.limit_ranges import LimitRangeAdmission
from kcr.apiserver.quota.quotas import QuotaAdmission

__all__ = ["LimitRangeAdmission", "QuotaAdmission"]
