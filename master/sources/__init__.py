"""The sources of facts: `table` lists each one, a file or folder each."""
