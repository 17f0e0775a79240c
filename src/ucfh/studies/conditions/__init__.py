"""What each condition of the confidence set is worth."""
