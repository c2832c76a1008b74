"""The command line: one module for each command, everything heavy imported inside it."""
