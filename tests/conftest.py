"""What all tests share."""

from hypothesis import HealthCheck, settings

# How long a machine takes is no property of the code: neither a deadline nor slow generation fails a test.
settings.register_profile("sct", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sct")
