"""Jobs and CronJobs: defaults, preparation, validation, and what a status write may do."""
