"""Explanations by kind: pods, workloads, namespaces, nodes, webhooks and policies; facts in, text out."""
