"""Where facts come from: `table` lists every source, one file or folder each."""
