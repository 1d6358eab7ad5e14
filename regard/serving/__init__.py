"""HTTP server for translation and captioning, with the APIs of LibreTranslate and DeepL, and one of
its own.
"""
