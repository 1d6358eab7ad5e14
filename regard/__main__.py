"""Entry point of `python -m regard`: Python itself imports from the current folder until it begins
(docs/deploy.md).
"""

import sys

if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        # The current folder: what is imported from here on is not looked for in it.
        del sys.path[0]

    from regard.translate_stdin import main

    main()
