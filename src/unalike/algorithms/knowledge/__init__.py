"""Algorithms whose parties and server teach each other: by scores, by labels' mean scores, by a student."""
