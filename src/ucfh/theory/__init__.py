"""What the paper proves: the constants of UCFH, and bounds on its mistakes and on its peers'."""
