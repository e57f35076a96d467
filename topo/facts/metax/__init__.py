"""The outputs of MetaX's tools and library."""
