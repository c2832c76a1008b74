"""Models by name: the released checkpoints."""
