"""What must hold of Jobs and their pods, whatever happens: checked on every change the storage makes."""
