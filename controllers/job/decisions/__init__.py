"""The decisions of the Job controller: plain functions over frozen values. Nothing here does I/O."""
