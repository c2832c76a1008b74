"""Training: losses, augmentation, the loop. Needs torch."""
