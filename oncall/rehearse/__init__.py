"""Recorded incidents, to learn the product on and to try playbooks against."""
