"""Agents on simulated worlds, and the record of what happened."""
