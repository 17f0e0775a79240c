"""Theory: the constants of UCFH, upper and lower bounds, and checks of the paper's claims."""
