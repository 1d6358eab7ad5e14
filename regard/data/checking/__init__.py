"""Checks of the pairs of a corpus: damaged texts, sides that do not belong together, and the like.

What is usual is learnt from the corpus itself.
"""
