"""Training: so far its losses. Needs torch."""
