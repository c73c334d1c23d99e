"""A studio somewhere else, asked from Python: records are the library's, and the standard library suffices."""

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sct.captioner.grounded_caption import CaptionWord, GroundedCaption, GroundedChunk, RegionOrder
from sct.errors import InputError
from sct.regions.parsing import RegionsLike, as_control
from sct.regions.records import Box, Control, Region, RegionSet

_WAIT_WITHOUT_WORD = 1.0


class StudioError(RuntimeError):
    """The server did not answer, though nothing was wrong with what was asked."""

    def __init__(self, status: int | None, sentence: str) -> None:
        """``status`` is None where nothing came back at all."""
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class Scores:
    """What metrics say of captions, in the units of the paper's tables."""

    scores: Mapping[str, float | None]
    """None where a metric could not run."""
    per_caption: Sequence[Mapping[str, float | None]]
    unavailable: Mapping[str, str]
    """Why a metric has no figure."""


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    content: Any
    retry_after: float


class Client:
    """Asks a studio (``sct serve``); one client may be used by several threads."""

    def __init__(
        self, url: str = "http://127.0.0.1:8765", *, token: str | None = None, timeout: float = 60.0, retries: int = 5
    ) -> None:
        """``retries``: how often it waits and asks again where the server has too much to do."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{url!r} is no address of a studio: expected one such as http://127.0.0.1:8765")
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._place, self._path = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout, self._retries = timeout, retries
        self._known: set[str] = set()

    def caption(
        self,
        image: str | Path | bytes,
        regions: RegionsLike | None = None,
        *,
        ordered: bool = True,
        cover: bool = False,
        beam: int = 5,
        n_best: int = 1,
        max_length: int = 20,
        length_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
    ) -> list[GroundedCaption]:
        """Captions of an image, a file or what a file holds, the best first; see ``Captioner.caption``.

        Unlike there no two words in a row are said twice unless ``no_repeat_ngram_size`` is 0; None leaves it to the server.
        """
        request = {
            **_control_fields(regions, ordered=ordered),
            "cover": cover,
            "beam": beam,
            "n_best": n_best,
            "max_length": max_length,
            "length_penalty": length_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        return _captions(self._about("/v1/caption", image, request), request)

    def ways(
        self,
        image: str | Path | bytes,
        regions: RegionsLike,
        number: int = 5,
        *,
        ordered: bool = True,
        cover: bool = False,
        beam: int = 5,
        max_length: int = 20,
        length_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
    ) -> list[GroundedCaption]:
        """Captions of other orders and subsets, the best first; ``order.sets`` tells what each talks about."""
        request = {
            **_control_fields(regions, ordered=ordered),
            "cover": cover,
            "beam": beam,
            "number": number,
            "max_length": max_length,
            "length_penalty": length_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        return _captions(self._about("/v1/ways", image, request), request)

    def detect(self, image: str | Path | bytes, limit: int = 30) -> tuple[Region, ...]:
        """Regions of an image that are worth talking about, the best first."""
        found = self._about("/v1/detect", image, {"limit": limit})["regions"]
        return tuple(Region(Box.checked(each["box"]), each["class"], each["score"]) for each in found)

    def score(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        metrics: Sequence[str] = ("B4", "R", "C"),
    ) -> Scores:
        """Judge each caption by its references."""
        lines = [
            {"prediction": said, "references": list(expected)}
            for said, expected in zip(predictions, references, strict=True)
        ]
        body = json.dumps({"predictions": lines, "metrics": list(metrics)}).encode()
        found = self._checked(self._ask("POST", "/v1/score", body, "application/json"))
        return Scores(found["scores"], found["per_caption"], found["unavailable"])

    def health(self) -> dict[str, Any]:
        """Whether the server works, what its model can do, and its limits."""
        found: dict[str, Any] = self._checked(self._ask("GET", "/v1/health", b"", None))
        return found

    def _about(self, path: str, image: str | Path | bytes, request: dict[str, Any]) -> Any:
        """Ask about an image: by its id where the server has seen it, else with its bytes."""
        data = image if isinstance(image, bytes) else _file(Path(image))
        name = sha256(data).hexdigest()
        if name in self._known:
            reply = self._ask("POST", path, json.dumps({**request, "image": name}).encode(), "application/json")
            if reply.status != 404:
                return self._checked(reply)
        boundary = secrets.token_hex(24)
        body = _form(boundary, {"request": json.dumps(request).encode(), "image": data})
        found = self._checked(self._ask("POST", path, body, f"multipart/form-data; boundary={boundary}"))
        self._known.add(name)
        return found

    def _ask(self, method: str, path: str, body: bytes, kind: str | None) -> _Reply:
        """Send a request, again where the server says to come back later."""
        for _ in range(self._retries):
            reply = self._ask_once(method, path, body, kind)
            if reply.status != 429:
                return reply
            time.sleep(reply.retry_after)
        return self._ask_once(method, path, body, kind)

    def _ask_once(self, method: str, path: str, body: bytes, kind: str | None) -> _Reply:
        connection = self._connection(self._place, timeout=self._timeout)
        headers = self._headers if kind is None else {**self._headers, "Content-Type": kind}
        try:
            connection.request(method, self._path + path, body, headers)
            answer = connection.getresponse()
            content = json.loads(answer.read())
        except (OSError, HTTPException, ValueError) as error:
            raise StudioError(None, f"{self._place} gave no answer that can be read: {error}") from error
        finally:
            connection.close()
        try:
            wait = float(answer.getheader("retry-after", ""))
        except ValueError:
            wait = _WAIT_WITHOUT_WORD
        return _Reply(answer.status, content, wait)

    def _checked(self, reply: _Reply) -> Any:
        if reply.status == 200:
            return reply.content
        sentence = reply.content.get("error") if isinstance(reply.content, dict) else None
        told = sentence if isinstance(sentence, str) else f"{self._place} answered with status {reply.status}"
        if reply.status in (400, 404, 413, 415, 422):
            raise InputError(told)
        raise StudioError(reply.status, told)


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}): expected an image") from error


def _form(boundary: str, parts: Mapping[str, bytes]) -> bytes:
    pieces = []
    for name, content in parts.items():
        name_of_file = '; filename="image"' if name == "image" else ""
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{name_of_file}\r\n\r\n'
        pieces += [head.encode(), content, b"\r\n"]
    return b"".join([*pieces, f"--{boundary}--\r\n".encode()])


def _control_fields(regions: RegionsLike | None, *, ordered: bool) -> dict[str, Any]:
    if regions is None:
        return {"control": None}
    control = as_control(regions, ordered=ordered)
    sets = [region_set.regions for region_set in control.region_sets]
    return {
        "control": [[list(region.box) for region in regions] for regions in sets],
        "classes": [[region.class_name for region in regions] for regions in sets],
        "ordered": control.ordered,
    }


def _captions(content: Any, request: Mapping[str, Any]) -> list[GroundedCaption]:
    ordered = request.get("ordered")
    return [
        _caption(each, ordered=each["order"] is None if ordered is None else ordered) for each in content["captions"]
    ]


def _caption(content: dict[str, Any], *, ordered: bool) -> GroundedCaption:
    sets = tuple(
        RegionSet(tuple(Region(Box.checked(box), name) for box, name in zip(boxes, names, strict=True)))
        for boxes, names in zip(content["control"], content["classes"], strict=True)
    )
    order = content["order"]
    return GroundedCaption(
        words=tuple(CaptionWord(**{**word, "attention": tuple(word["attention"])}) for word in content["words"]),
        chunks=tuple(
            GroundedChunk(chunk["text"], (chunk["words"][0], chunk["words"][1]), chunk["region_set"])
            for chunk in content["chunks"]
        ),
        log_prob=content["log_prob"],
        order=None if order is None else RegionOrder(tuple(order["sets"]), order["probability"]),
        control=Control(sets, ordered=ordered),
    )
