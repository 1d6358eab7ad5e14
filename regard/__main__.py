"""Entry point of `python -m regard`."""

from regard.pipe import main

if __name__ == "__main__":
    main()
