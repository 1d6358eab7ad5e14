"""The way of a text through a translator, but for the model itself: without input and output, and
without PyTorch.

`text_path` says which lines are to be decoded, takes their translations, and says what is next,
until each line is whole: spans that are not language stand aside (`protected_line`), capitals and
titles are read in the letters that the model knows (`casing`), labels without the marks of their
mnemonics (`mnemonics`); what a translation has lost is tried again, and notes say what is wrong
with it. `text_format` takes whole texts and pages apart into lines (`markup`: HTML and XML).
`line_splitter` divides lines into what a model decodes at once; `doubtful_sentences` tells what it
has not learnt.
"""
