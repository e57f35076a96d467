"""Which GPUs inside one node a pod should get."""
