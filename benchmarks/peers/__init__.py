"""One adapter for each system that is measured, beside the exact versions it is measured with.

An adapter is run as `python -m peers.NAME` from the folder above, so that `import NAME` finds the installed system.
"""
