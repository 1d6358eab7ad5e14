"""The processing of a text before and after the model decodes it, without input and output, and
without PyTorch.

`text_path` yields the lines to decode, receives their translations, and continues until each line
is done. Spans that are not language are protected (`protected_line`), capitals and titles are
converted to the letters that the model knows (`casing`), and the marks of mnemonics are removed
from labels (`mnemonics`). Lines whose translation has lost something are tried again, and notes
report what is still wrong. `text_format` divides texts and pages into lines (`markup`: HTML and
XML), `line_splitter` divides lines into what a model decodes at once, and `doubtful_sentences`
recognises sentences unlike the training data.
"""
