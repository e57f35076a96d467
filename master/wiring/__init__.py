"""The plan of the cables that a master holds beside what it sees."""
