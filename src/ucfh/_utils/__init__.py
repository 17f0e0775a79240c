"""Helpers that every part uses: files, checks, memory, processes, statistics."""
