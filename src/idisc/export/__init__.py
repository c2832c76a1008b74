"""Export: the network as one file for other runtimes, measured against itself before it is kept."""
