"""The forest as Slurm's topology files: `topology.conf` (tree, block) and `topology.yaml`."""
