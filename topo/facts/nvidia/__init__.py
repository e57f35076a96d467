"""The outputs of NVIDIA's tools and library."""
