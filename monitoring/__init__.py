"""What people see in Grafana and are woken by: dashboards and alerts, written into the chart.

`make dashboards` writes them; nothing that runs imports this.
"""
