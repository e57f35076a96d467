"""Cards that several pods share: what each has left, who may have how many, which one to take."""
