"""What every room uses and no reader looks for: files, checks, memory, processes, statistics."""
