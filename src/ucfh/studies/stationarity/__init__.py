"""What a policy loses that does not look at the clock."""
