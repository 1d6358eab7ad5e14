"""One adapter for each measured system, beside the pinned versions of its packages.

Run an adapter as `python -m peers.NAME` from the folder above, so that `import NAME` finds the
installed system.
"""
