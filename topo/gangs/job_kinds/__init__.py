"""The kinds of jobs whose pods can be gangs: the table `kinds`, and one reader per kind."""
