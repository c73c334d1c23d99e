"""HTTP client of ``sct serve`` that returns the library's records; standard library only."""

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
from sct.storage.reading import parse_json

_DEFAULT_RETRY_AFTER = 1.0


class StudioError(RuntimeError):
    """The server failed, is busy or cannot be reached."""

    def __init__(self, status: int | None, message: str) -> None:
        """``status`` is None without a response."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class CaptionScores:
    """Scores of captions, in the units of the paper's tables."""

    scores: Mapping[str, float | None]
    """None for a metric that could not run."""
    per_caption: Sequence[Mapping[str, float | None]]
    unavailable: Mapping[str, str]
    """Reason for each metric that could not run."""


@dataclass(frozen=True, slots=True)
class _Response:
    status: int
    content: Any
    retry_after: float


class Client:
    """Client of a server (``sct serve``); thread-safe."""

    def __init__(
        self, url: str = "http://127.0.0.1:8765", *, token: str | None = None, timeout: float = 60.0, retries: int = 5
    ) -> None:
        """``retries``: how often a request is repeated after a 429."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"got {url!r}, expected the URL of a server such as http://127.0.0.1:8765")
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._netloc, self._path = parts.netloc.rpartition("@")[2], parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout, self._retries = timeout, retries
        self._known_images: set[str] = set()

    def caption(
        self,
        image: str | Path | bytes,
        regions: RegionsLike | None = None,
        *,
        ordered: bool = True,
        relative: bool = False,
        cover: bool = False,
        whole_chunks: bool | None = None,
        banned_words: Sequence[str] = (),
        required_words: Sequence[str] = (),
        min_fit: float | None = None,
        beam_size: int = 5,
        n_best: int = 1,
        max_length: int = 20,
        length_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
    ) -> list[GroundedCaption]:
        """Caption an image, a file or the content of one; returns the best captions first. See ``Captioner.caption``.

        ``no_repeat_ngram_size=None`` uses the default of the server's model, as in ``Captioner.caption``.
        """
        request = {
            **_control_fields(regions, ordered=ordered, relative=relative),
            "cover": cover,
            "whole_chunks": whole_chunks,
            "banned_words": list(banned_words),
            "required_words": list(required_words),
            "min_fit": min_fit,
            "beam_size": beam_size,
            "n_best": n_best,
            "max_length": max_length,
            "length_penalty": length_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        return _parse_captions(self._send_about("/v1/caption", image, request), request)

    def alternatives(
        self,
        image: str | Path | bytes,
        regions: RegionsLike,
        limit: int = 5,
        *,
        ordered: bool = True,
        relative: bool = False,
        cover: bool = False,
        whole_chunks: bool | None = None,
        banned_words: Sequence[str] = (),
        required_words: Sequence[str] = (),
        min_fit: float | None = None,
        beam_size: int = 5,
        max_length: int = 20,
        length_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
    ) -> list[GroundedCaption]:
        """Caption other orders and subsets of the regions, best first; ``order.sets`` of a caption holds its order."""
        request = {
            **_control_fields(regions, ordered=ordered, relative=relative),
            "cover": cover,
            "whole_chunks": whole_chunks,
            "banned_words": list(banned_words),
            "required_words": list(required_words),
            "min_fit": min_fit,
            "beam_size": beam_size,
            "limit": limit,
            "max_length": max_length,
            "length_penalty": length_penalty,
            "no_repeat_ngram_size": no_repeat_ngram_size,
        }
        return _parse_captions(self._send_about("/v1/alternatives", image, request), request)

    def detect(self, image: str | Path | bytes, limit: int = 30) -> tuple[Region, ...]:
        """Detect regions, highest score first."""
        found = self._send_about("/v1/detect", image, {"limit": limit})["regions"]
        return tuple(Region(Box.from_corners(each["box"]), each["class"], each["score"]) for each in found)

    def score(
        self,
        predictions: Sequence[str],
        references: Sequence[Sequence[str]],
        metrics: Sequence[str] = ("B4", "R", "C"),
    ) -> CaptionScores:
        """Score captions against their references."""
        lines = [
            {"prediction": prediction, "references": list(texts)}
            for prediction, texts in zip(predictions, references, strict=True)
        ]
        body = json.dumps({"predictions": lines, "metrics": list(metrics)}).encode()
        found = self._content(self._send("POST", "/v1/score", body, "application/json"))
        return CaptionScores(found["scores"], found["per_caption"], found["unavailable"])

    def health(self) -> dict[str, Any]:
        """Return status, model and limits of the server."""
        found: dict[str, Any] = self._content(self._send("GET", "/v1/health", b"", None))
        return found

    def _send_about(self, path: str, image: str | Path | bytes, request: dict[str, Any]) -> Any:
        """Send a request about an image, by id if the server has it, else with its bytes."""
        data = image if isinstance(image, bytes) else _read_file(Path(image))
        name = sha256(data).hexdigest()
        if name in self._known_images:
            body = json.dumps({**request, "image": name}).encode()
            response = self._send("POST", path, body, "application/json", name)
            if response.status != 404:
                return self._content(response)
        boundary = secrets.token_hex(24)
        body = encode_form(boundary, {"request": json.dumps(request).encode(), "image": data})
        found = self._content(self._send("POST", path, body, f"multipart/form-data; boundary={boundary}", name))
        self._known_images.add(name)
        return found

    def _send(
        self, method: str, path: str, body: bytes, content_type: str | None, image_id: str | None = None
    ) -> _Response:
        """Send a request; retry after a 429."""
        given = {"Content-Type": content_type, "X-Image-Id": image_id}  # proxies route by the id
        headers = self._headers | {name: value for name, value in given.items() if value is not None}
        for _ in range(self._retries):
            response = self._send_once(method, path, body, headers)
            if response.status != 429:
                return response
            time.sleep(response.retry_after)
        return self._send_once(method, path, body, headers)

    def _send_once(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> _Response:
        connection = self._connection(self._netloc, timeout=self._timeout)
        try:
            connection.request(method, self._path + path, body, headers)
            http_response = connection.getresponse()
            content = parse_json(http_response.read(), "it")
        except (OSError, HTTPException, ValueError) as error:
            raise StudioError(None, f"{self._netloc} sent no valid response: {error}") from error
        finally:
            connection.close()
        try:
            retry_after = float(http_response.getheader("retry-after", ""))
        except ValueError:
            retry_after = _DEFAULT_RETRY_AFTER
        return _Response(http_response.status, content, retry_after)

    def _content(self, response: _Response) -> Any:
        if response.status == 200:
            return response.content
        message = response.content.get("error") if isinstance(response.content, dict) else None
        message = message if isinstance(message, str) else f"{self._netloc} answered with status {response.status}"
        if response.status in (400, 404, 413, 415, 422):
            raise InputError(message)
        raise StudioError(response.status, message)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error}), expected an image") from error


def encode_form(boundary: str, parts: Mapping[str, bytes]) -> bytes:
    """Encode a multipart form."""
    pieces = []
    for name, content in parts.items():
        filename = '; filename="image"' if name == "image" else ""
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{filename}\r\n\r\n'
        pieces += [head.encode(), content, b"\r\n"]
    return b"".join([*pieces, f"--{boundary}--\r\n".encode()])


def _control_fields(regions: RegionsLike | None, *, ordered: bool, relative: bool) -> dict[str, Any]:
    if regions is None:
        return {"control": None}
    control = as_control(regions, ordered=ordered, relative=relative)
    sets = [region_set.regions for region_set in control.region_sets]
    return {
        "control": [[list(region.box) for region in regions] for regions in sets],
        "classes": [[region_set.name] * len(region_set.regions) for region_set in control.region_sets],
        "ordered": control.ordered,
        **({"relative": True} if control.relative else {}),
    }


def _parse_captions(content: Any, request: Mapping[str, Any]) -> list[GroundedCaption]:
    ordered = request.get("ordered")
    return [
        _parse_caption(each, ordered=each["order"] is None if ordered is None else ordered)
        for each in content["captions"]
    ]


def _parse_caption(content: dict[str, Any], *, ordered: bool) -> GroundedCaption:
    sets = tuple(
        RegionSet(
            tuple(
                Region(Box.from_corners(box), class_name, name=name)
                for box, class_name, name in zip(boxes, classes, names, strict=True)
            )
        )
        for boxes, classes, names in zip(content["control"], content["classes"], content["names"], strict=True)
    )
    order = content["order"]
    return GroundedCaption(
        words=tuple(CaptionWord(**{**word, "attention": tuple(word["attention"])}) for word in content["words"]),
        chunks=tuple(
            GroundedChunk(chunk["text"], (chunk["words"][0], chunk["words"][1]), chunk["region_set"], chunk["fits"])
            for chunk in content["chunks"]
        ),
        log_prob=content["log_prob"],
        order=None if order is None else RegionOrder(tuple(order["sets"]), order["probability"]),
        control=Control(sets, ordered=ordered),
    )
