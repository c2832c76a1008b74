"""Models by name: the released ones that can be converted, and what ships."""
