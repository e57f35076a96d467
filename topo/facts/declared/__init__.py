"""Groups that people write down: YAML and JSON documents, `nodegroup.yaml`."""
