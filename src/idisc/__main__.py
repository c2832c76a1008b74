"""`python -m idisc` is the command line."""

from idisc.cli.main import main

if __name__ == "__main__":
    main()
