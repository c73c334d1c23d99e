"""What is answered where there is no answer: a status and one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import JSONResponse


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818 - it refuses, and nothing went wrong
    """A request that is not answered."""

    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> JSONResponse:
        """As it is sent."""
        return error_response(self.status, self.sentence, self.headers)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The one form that all errors have."""
    return JSONResponse({"error": " ".join(sentence.split())}, status, headers)
