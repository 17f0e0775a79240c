"""The commands: one file each, options and body together; help loads nothing heavy."""
