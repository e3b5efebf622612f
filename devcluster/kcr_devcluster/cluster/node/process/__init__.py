"""The process runtime: containers are processes of this machine."""
