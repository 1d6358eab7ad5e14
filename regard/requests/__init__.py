"""Requests of the public functions and of the commands: their arguments, defined once.

Modules here import nothing but `regard.common`, so that the command line can describe its options
without importing PyTorch.
"""
