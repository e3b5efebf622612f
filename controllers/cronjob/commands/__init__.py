"""The commands about Jobs and CronJobs: entry points of the group `kcr.commands`."""
