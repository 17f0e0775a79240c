"""What counts say: of one probability, of a problem's transitions, of values."""
