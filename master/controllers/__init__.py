"""What the leader keeps true in the cluster: a file per kind of object, the forest its measure."""
