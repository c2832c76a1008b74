"""Models by name: those that ship with the package, and the released checkpoints."""
