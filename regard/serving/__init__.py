"""Server: translation and captions over HTTP, for clients of LibreTranslate and DeepL, and
endpoints of its own.
"""
