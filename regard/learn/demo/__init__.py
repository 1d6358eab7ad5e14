"""Demonstrations on the sample data: train a model, score it, check it against gold answers, and
draw its attention.

`sentences` trains two translators, Korean → English and English → Korean. `images` trains a
captioner in one of the two languages. Both train with `training.train_with_head`, report through
its `Output`, and return whether the model is good enough.
"""
