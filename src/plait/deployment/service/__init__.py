"""The prediction service: HTTP at the coordinator, scores by all parties together."""
