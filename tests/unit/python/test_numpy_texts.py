"""What numpy 2 says of names that it no longer has: as 2.0.2, 2.2.6 and 2.4.0 said it when they were asked."""

from __future__ import annotations

import pytest

from abiscan.python.torch_api import numpy_texts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Inf", "`np.Inf` was removed in the NumPy 2.0 release."),  # followed by advice
        ("float_", "`np.float_` was removed in the NumPy 2.0 release."),
        ("NAN", "module 'numpy' has no attribute 'NAN'"),
        ("product", "module 'numpy' has no attribute 'product'"),
        ("float", "module 'numpy' has no attribute 'float'"),  # followed by advice
        ("disp", None),  # 2.4.0 has no advice on it any more
        ("core.numeric", None),
    ],
)
def test_the_text_of_a_name_that_is_gone(name: str, text: str | None) -> None:
    assert numpy_texts.missing_name(f"numpy.{name}") == text
