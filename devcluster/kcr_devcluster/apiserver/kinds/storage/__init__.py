"""The strategies of volumes, their claims and their classes."""
