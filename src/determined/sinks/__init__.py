"""Sinks forward metrics and checkpoint references to tracking services such as MLflow, without delaying training."""
