"""The process runtime: pods whose containers are processes of this machine, with their volumes and limits."""
