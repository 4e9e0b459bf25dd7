"""Counting floating-point operations: torch's counter, and the attention of CPUs, which it passes over.

A product of (m, k) and (k, n) is 2 m k n. What a backward pass computes again counts once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count


def flop_counter() -> FlopCounterMode:
    """A context; `get_total_flops()` is what ran in it."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return FlopCounterMode(display=False, custom_mapping={attention: _attention, backward: _attention_backward})


def _attention(q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    count: int = sdpa_flop_count(q, k, v)  # type: ignore[no-untyped-call]
    return count


def _attention_backward(_grad: Any, q: Any, k: Any, v: Any, *_: Any, **__: Any) -> int:
    return 2 * _attention(q, k, v)
