"""Starts training on several machines."""
