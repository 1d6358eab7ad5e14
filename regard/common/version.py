"""The version of Regard."""

__version__ = "0.1.0"
