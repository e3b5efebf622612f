"""The decisions of the CronJob controller: plain functions over frozen values. Nothing here does I/O."""
