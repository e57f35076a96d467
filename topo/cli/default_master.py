"""The master that is asked where neither an option, the environment nor a demo names one."""

DEFAULT_MASTER = "http://127.0.0.1:9001"
