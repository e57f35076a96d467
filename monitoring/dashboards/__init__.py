"""The Grafana dashboards: `board` says what one is, `grafana` writes it, `boards` has them all."""
