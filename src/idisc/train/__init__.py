"""Training of networks. Needs the extra `train`."""
