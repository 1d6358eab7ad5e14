"""Foundations of all other packages: errors, settings, reading and writing of files, seals, axis
letters.
"""
