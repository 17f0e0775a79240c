"""How mistakes grow with the size of a problem."""
