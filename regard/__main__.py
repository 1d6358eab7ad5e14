"""Entry point of `python -m regard`."""

from regard.cli import main

if __name__ == "__main__":
    main()
