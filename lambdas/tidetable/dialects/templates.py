"""Templates such as ``{measurement}/{host}``: names in braces are replaced by values."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACE = re.compile(r"\{([^{}]+)\}")


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """Return the template with its names replaced by values; ValueError names a missing value."""

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise ValueError(f"series: there is no {match[1][:64]!r} to fill the template {template!r} with")
        return values[match[1]]

    return _PLACE.sub(value_of, template)
