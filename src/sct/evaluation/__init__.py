"""The paper's evaluation protocols: caption a split under control, write predictions, score them."""
