"""How pairs become known, by importance."""
