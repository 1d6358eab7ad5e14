"""Import and export: CTranslate2 (export), Hugging Face's Marian models (both), and runtime files.

An export loads the model folder, writes the files of the other toolkit beside `out`, and compares
both on `probe_sentences`. It appears under its name only if their `Parity` is good enough.
"""
