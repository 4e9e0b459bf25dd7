"""Codecs of frames. `lz4` is lossless, smaller and faster on these frames; `jpeg` is the paper's format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import lz4.block
import numpy as np
import simplejpeg

from sgjepa.core.errors import InputError, one_line
from sgjepa.core.registry import Registry


@dataclass(frozen=True)
class Codec:
    """A codec of frames. about: a description for the dataset's metadata, for readers with other tools"""

    name: str
    about: str
    encode: Callable[[np.ndarray], bytes]  # (H, W, 3) uint8, C order
    decode: Callable[[bytes, tuple[int, int, int]], np.ndarray]


def _encode_lz4(frame: np.ndarray) -> bytes:
    packed: bytes = lz4.block.compress(frame, store_size=False)
    return packed


def _decode_lz4(packed: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    size = shape[0] * shape[1] * shape[2]
    pixels = lz4.block.decompress(packed, uncompressed_size=size)
    return np.frombuffer(pixels, np.uint8).reshape(shape)


def _encode_jpeg(frame: np.ndarray) -> bytes:
    # no chroma subsampling: 4:2:0 errs by up to 133 levels at the red body's edge
    packed: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(frame), quality=95, colorspace="RGB", colorsubsampling="444")
    return packed


def _decode_jpeg(packed: bytes, shape: tuple[int, int, int]) -> np.ndarray:
    frame: np.ndarray = simplejpeg.decode_jpeg(packed, colorspace="RGB", fastdct=False, fastupsample=False)
    if frame.shape != shape:
        raise ValueError(f"picture is {frame.shape}, not {shape}")
    return frame


CODECS: Registry[Codec] = Registry(
    "codec",
    {
        "lz4": Codec("lz4", "LZ4 block of the raw RGB bytes, row by row, without a size header", _encode_lz4, _decode_lz4),
        "jpeg": Codec("jpeg", "JPEG, RGB in, quality 95, 4:4:4", _encode_jpeg, _decode_jpeg),
    },
)


def decode(codec: Codec, packed: bytes, shape: tuple[int, int, int], source: str) -> np.ndarray:
    """Decode a frame. source: names it in the InputError of a corrupt one"""
    try:
        return codec.decode(packed, shape)
    except (ValueError, RuntimeError, lz4.block.LZ4BlockError) as error:
        raise InputError(f"{source}: the {codec.name} picture is corrupt ({one_line(error, 120)})") from error
