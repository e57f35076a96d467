"""Reading of requests: the body, the parameters, the job in it."""
