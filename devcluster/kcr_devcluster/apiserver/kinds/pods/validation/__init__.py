"""Validation of pod specs and pod templates, by part.

Source: kubernetes/pkg/apis/core/validation/validation.go.
"""
