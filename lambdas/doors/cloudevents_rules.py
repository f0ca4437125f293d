"""The rules of CloudEvents 1.0 for an event's attributes, its data, and the text of headers.

Sources: cloudevents/spec, spec.md ("Naming conventions", "Type system", the constraints of each attribute); "HTTP
protocol binding", 3.1.3.2; "JSON event format", 2.2 and 3.1.
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any
from urllib.parse import unquote_to_bytes

from tidetable.events import JsonObject

REQUIRED = ("id", "source", "specversion", "type")
PAYLOAD = frozenset({"data", "data_base64"})
_TEXTS = (*REQUIRED, "subject", "datacontenttype", "dataschema", "time")
_NAME = re.compile(r"[a-z0-9]+", re.ASCII)
# Control characters and the code points that are not characters.
_FORBIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(f"{chr(0x10000 * n + 0xFFFE)}{chr(0x10000 * n + 0xFFFF)}" for n in range(17))
    + "]"
)
# RFC 3986, appendix A: the characters of a URI reference, and at most one fragment.
_URI_CHARACTER = r"(?:[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})"
_URI_REFERENCE = re.compile(rf"{_URI_CHARACTER}*(?:#{_URI_CHARACTER}*)?", re.ASCII)
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
# RFC 2045, section 5.1.
_WORD = r"[A-Za-z0-9!#$%&'*+.^_`|~{}-]+"
_MEDIA_TYPE = re.compile(
    rf'{_WORD}/{_WORD}(?:\s*;\s*{_WORD}\s*=\s*(?:{_WORD}|"(?:[^"\\]|\\.)*"))*\s*(?:;\s*)?', re.ASCII
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)
_QUOTED_PAIR = re.compile(r"\\(.)")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_LARGEST = 2**31


def decode_header(value: str) -> str:
    """Decode an attribute in a header: percent-encoded and, in earlier versions, also quoted (RFC 7230, 3.2.6).

    ValueError for percent-encoded bytes that are not UTF-8, and for a percent sign without two digits: otherwise
    different values would become one.
    """
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = _QUOTED_PAIR.sub(r"\1", value[1:-1])
    if "%" not in value:
        return value
    if _BAD_PERCENT.search(value):
        raise ValueError("has a percent sign that is not followed by two hexadecimal digits")
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError as error:
        raise ValueError("has percent-encoded bytes that are not UTF-8") from error


def find_problem(event: JsonObject) -> str | None:
    """Return the first rule that an event breaks; None if it is valid. Attributes that are null are left out already."""
    for name in REQUIRED:
        if not isinstance(event.get(name), str) or not event[name]:
            return f"{name} is missing: a CloudEvent has the texts {', '.join(REQUIRED)}"
    if event["specversion"] != "1.0":
        return f"specversion {event['specversion'][:16]!r} is not understood: send 1.0"
    for name, value in event.items():
        if name not in PAYLOAD and (problem := _find_problem_of_attribute(name, value)) is not None:
            return problem
    if event.keys() >= PAYLOAD:
        return "an event has data or data_base64, not both"
    if "data_base64" in event and not _is_base64(event["data_base64"]):
        return "data_base64 is not a text in base64"
    return _find_problem_of_form(event)


def _find_problem_of_attribute(name: str, value: Any) -> str | None:
    if not _NAME.fullmatch(name):
        return f"the attribute {name[:64]!r} has a wrong name: names have only lower-case letters and digits"
    if isinstance(value, str):
        if _FORBIDDEN.search(value):
            return f"{name[:64]} has a control character, or a code point that is not a character"
    elif name in _TEXTS:
        return f"{name} must be a text of at least one character" if name != "time" else _explain_time()
    elif not (isinstance(value, bool) or (isinstance(value, int) and -_LARGEST <= value < _LARGEST)):
        return f"{name[:64]} must be a text, a boolean or a whole number of 32 bits"
    return None


def _find_problem_of_form(event: JsonObject) -> str | None:
    """Check the attributes whose text has a form."""
    if not _URI_REFERENCE.fullmatch(event["source"]):
        return "source is not a URI reference: encode other characters by percent signs"
    if event.get("subject") == "":
        return "subject must be a text of at least one character"
    schema, kind, time = event.get("dataschema"), event.get("datacontenttype"), event.get("time")
    if schema is not None and not (_URI_REFERENCE.fullmatch(schema) and _ABSOLUTE.match(schema)):
        return "dataschema is not a URI with a scheme, such as https://example.com/schema"
    if kind is not None and not _MEDIA_TYPE.fullmatch(kind):
        return "datacontenttype is not a media type, such as application/json"
    return _explain_time() if time is not None and not _TIME.fullmatch(time) else None


def _explain_time() -> str:
    return "time: a CloudEvent's time is RFC 3339 text with an offset"


def _is_base64(value: Any) -> bool:
    try:
        b64decode(value, validate=True)
    except (ValueError, TypeError):
        return False
    return True
