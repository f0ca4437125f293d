"""The choice of a period's form by the layout of the period."""

from __future__ import annotations

from functools import lru_cache

from tidetable.forms.form import Form
from tidetable.layout import Layout


@lru_cache(256)
def choose_form(layout: Layout) -> Form:
    """Choose the form of a period by the period's own layout. A form has no state, so periods share it."""
    # Each form is imported when it is met first: most cold starts need the plain form alone.
    if layout.pack is not None:
        from tidetable.forms.packed import PackedForm

        return PackedForm(layout, layout.pack)
    from tidetable.forms.plain import PlainForm

    return PlainForm(layout)
