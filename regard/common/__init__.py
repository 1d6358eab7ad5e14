"""Foundations of every other room: errors, settings, files that are read and written, seals, the
axis letters.
"""
