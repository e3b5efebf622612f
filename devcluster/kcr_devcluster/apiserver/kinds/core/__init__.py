"""The strategies of the kinds of the core group but pods, and of Leases."""
