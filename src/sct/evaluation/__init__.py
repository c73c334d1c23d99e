"""The paper's protocols: what is captioned under which control, and how the captions are judged."""
