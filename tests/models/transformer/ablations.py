"""Configs of the transformer that tests are parametrised with."""

import pytest

ABLATIONS = [
    pytest.param({}, id="default"),
    pytest.param({"end_slot": True}, id="end slot"),
    pytest.param({"pointer_bias": False}, id="no pointer bias"),
    pytest.param({"null_token": False}, id="no null token"),
    pytest.param({"null_token": False, "end_slot": True}, id="no null token, end slot"),
    pytest.param({"gate_input": "state"}, id="gate without word"),
    pytest.param({"encoder_depth": 0, "decoder_depth": 1}, id="shallow"),
    pytest.param({"word_size": 8}, id="words as wide as the decoder"),
]
