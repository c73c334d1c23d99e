"""What all tests share."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# How long a machine takes is no property of the code: neither a deadline nor slow generation fails a test.
settings.register_profile("sct", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sct")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Captioners in tests are so small that threads would spend their time waiting for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
