"""The monitoring service: applications ask once, hold the answer, and are told what each commit changes in it.

settings → accounts, grants → service (warehouse, one writer, readers) → feeds → events
                                                                       ↘ answers
routes is the table of everything that can be asked; running starts it.
"""
