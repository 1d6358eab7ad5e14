"""One translation, one model, or one page as plain data, for figures."""
