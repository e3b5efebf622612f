"""Jobs and CronJobs: defaulting, preparation, validation, and the rules of status writes."""
