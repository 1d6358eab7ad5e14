"""Folders of other toolkits, in and out."""
