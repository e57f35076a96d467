"""The address of the master where no option, environment variable or demo names one."""

DEFAULT_MASTER = "http://127.0.0.1:9001"
