"""What each command does: loaded only when it is run, so that help comes at once."""
