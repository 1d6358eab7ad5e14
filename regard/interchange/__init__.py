"""Import and export: CTranslate2 (out), Hugging Face's Marian models (in and out).

An export loads the model folder, writes the other toolkit's folder beside `out`, compares the two
on `probe_sentences`, and appears under its name only if their `Parity` is good enough.
"""
