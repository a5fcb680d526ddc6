"""Tutti: collective communication among processes and threads."""
