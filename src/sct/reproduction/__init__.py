"""Reproduce the tables of the paper: plan, train, evaluate, compare, report."""
