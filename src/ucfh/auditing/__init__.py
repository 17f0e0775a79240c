"""Tests of the assumptions of certificates, from the steps of a log or of a live task."""
