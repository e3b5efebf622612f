"""Protobuf bodies, as kubectl and Go's typed clients send them."""
