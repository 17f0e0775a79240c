"""Simulation of agents on known MDPs, and the record of their runs."""
