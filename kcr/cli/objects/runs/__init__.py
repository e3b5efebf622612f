"""Commands that run work once more: `kcr rerun` for an ended Job, `kcr run-now` for a CronJob."""
