"""Entry point of `python -m regard`, which keeps Python from importing modules of the current
folder.

Before this module runs, Python itself imports from the current folder (docs/deploy.md).
"""

import sys

if __name__ == "__main__":
    if not getattr(sys.flags, "safe_path", False):
        # The first entry is the current folder, which later imports must not search.
        del sys.path[0]

    from regard.translate_stdin import main

    main()
