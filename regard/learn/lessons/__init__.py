"""Lessons that explain attention with small numbers: a soft dictionary and a Transformer block."""
