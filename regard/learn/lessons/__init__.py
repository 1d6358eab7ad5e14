"""Lessons: attention explained with small numbers: a soft dictionary, an attention and a block
worked out.
"""
