"""Settings for all tests: Hypothesis without deadlines, torch with one thread."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Speed depends on the machine: neither a deadline nor slow generation fails a test.
settings.register_profile("sct", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sct")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Limit torch to one thread: for the small models of tests more are slower."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
