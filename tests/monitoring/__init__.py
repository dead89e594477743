"""The rules and dashboards of monitoring/, read by the Prometheus of Debian."""
