"""The source that receives the reports of workers."""
