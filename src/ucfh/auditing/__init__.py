"""Tests of what certificates assume, from the steps of a log or of a live task."""
