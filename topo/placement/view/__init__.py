"""What a job finds: the free slots of its kind of pod, and the job as numbers."""
