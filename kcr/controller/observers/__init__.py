"""Observers of reconciles: metrics, journal, traces, hot loops and conflicts that repeat."""
