"""Demonstrations on the sample data that ships with the package: train, score, check against gold
answers, draw.

`sentences`: two translators, Korean → English and English → Korean. `images`: a captioner, in
either language. Both train with `training.train_model`, report through its `Output`, and return
whether the model is as good as it must be.
"""
