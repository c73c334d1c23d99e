"""The paper's tables made again: its figures, the runs that make ours, and what holds of what it claims."""
