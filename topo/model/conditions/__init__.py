"""The catalogue of condition codes: a row per code, in a class per kind of subject."""
