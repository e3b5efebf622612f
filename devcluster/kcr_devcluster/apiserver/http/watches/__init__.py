"""Watches: streams of the changes of one kind."""
