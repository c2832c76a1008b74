"""A seeded, bounded fuzzer of everything that reads files or requests: `make fuzz`."""
