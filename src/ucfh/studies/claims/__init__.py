"""Claims of the proof, measured."""
