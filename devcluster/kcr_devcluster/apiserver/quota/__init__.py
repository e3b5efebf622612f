"""Resource quotas and limit ranges: usage of objects, quotas with their sums, and the admission of new objects."""

from kcr_devcluster.apiserver.quota.limit_ranges import LimitRangeAdmission
from kcr_devcluster.apiserver.quota.quotas import QuotaAdmission

__all__ = ["LimitRangeAdmission", "QuotaAdmission"]
