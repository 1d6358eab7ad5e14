"""Markup: HTML and XML translated with their tags kept."""
