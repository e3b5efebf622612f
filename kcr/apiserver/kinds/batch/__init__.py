"""Jobs and CronJobs on the embedded server: defaults, preparation, validation, and what a status write may do."""

from kcr.apiserver.kinds.batch.cronjob import CronJobStrategy
from kcr.apiserver.kinds.batch.job import JobStrategy

__all__ = ["CronJobStrategy", "JobStrategy"]
