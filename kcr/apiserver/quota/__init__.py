"""Resource quotas: usage of objects, quotas with their sums, and the admission of new objects."""

from kcr.apiserver.quota.quotas import QuotaAdmission

__all__ = ["QuotaAdmission"]
