"""How few episodes a certificate takes."""
