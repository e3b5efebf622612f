"""Pods and pod templates: defaults, preparation, validation, warnings."""
