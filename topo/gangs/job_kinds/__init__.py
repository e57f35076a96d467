"""The kinds of jobs whose pods can be gangs: a row of `kinds` and a reader each."""
