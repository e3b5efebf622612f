"""Connections into pods over WebSockets: exec, attach and port-forward."""
