"""What `kcr dev` shows of Jobs, pods and logs while it runs."""
