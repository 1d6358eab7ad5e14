"""Contracts of the strings of programs: the judge of their translations.

`dialects` reads the table `dialects.json` of the spans of each dialect (printf, ICU, Fluent, HTML
…), `spans` reads the spans of a text, `messages` nested messages with branches. `judge` compares a
translation with its source by them (`codes`) and by the words around them (`prose`), and returns
faults; `recognise` names the dialect of the strings of a file.

The package shares nothing with the modules that keep spans through a translation, so that neither
can excuse the other.
"""
