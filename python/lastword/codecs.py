"""Codecs: values of any type as bytes.

A codec has a name, which the pool stores with the map, and two functions. A map opens only with the
codec of its name.
"""

import base64 as _base64
import dataclasses as _dataclasses
import json as _json
import pickle as _pickle
import types as _types
import typing as _typing
from collections import namedtuple as _namedtuple


class Codec(_namedtuple("Codec", ["name", "encode", "decode"])):
    """A name, a function from a value to bytes, and one from bytes to a value."""

    __slots__ = ()


def _dump(value):
    # NaN and infinities are not in JSON: other programs could not read the value.
    dumped = _json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return dumped.encode()


#: Any object that pickle knows. Loading one runs code: do not load pickles from pools that you do
#: not trust.
pickle = Codec("pickle", lambda value: _pickle.dumps(value, 5), _pickle.loads)

#: `None`, booleans, finite numbers, strings, and lists and dictionaries of these. As in JSON, a
#: tuple comes back as a list, and the keys of a dictionary as strings.
json = Codec("json", _dump, _json.loads)


def msgspec(kind=None):
    """MessagePack by the package msgspec: of any type that it knows, or of `kind` alone."""
    import msgspec as module

    name = "msgpack" if kind is None else f"msgpack:{_name(kind)}"
    kind = _typing.Any if kind is None else kind
    decoder = module.msgpack.Decoder(kind)
    return Codec(name, module.msgpack.Encoder().encode, decoder.decode)


def ndarray(dtype, shape=None):
    """NumPy arrays of one type, and of one shape if it is given, without their headers.

    A decoded array uses the memory of the bytes that were read, so it is read-only: `copy` it to
    change it.
    """
    import numpy

    dtype = numpy.dtype(dtype)
    suffix = "" if shape is None else "x".join(map(str, ["", *shape]))

    def encode(array):
        array = numpy.ascontiguousarray(array)
        if array.dtype != dtype or (shape is not None and array.shape != tuple(shape)):
            raise TypeError(f"an array of {dtype} {shape}, not of {array.dtype} {array.shape}")
        if shape is None and array.ndim != 1:
            raise TypeError(f"an array of {array.ndim} dimensions needs a codec with its shape")
        return array.tobytes()

    def decode(encoded):
        array = numpy.frombuffer(encoded, dtype)
        return array if shape is None else array.reshape(shape)

    return Codec(f"ndarray:{dtype.str}{suffix}", encode, decode)


def dataclass(kind):
    """A dataclass as a JSON object.

    Fields are str, int, float, bool, bytes, None, dataclasses, and lists, tuples, dictionaries with
    string keys and optionals of these. A field that is missing in the pool gets its default. A
    value of another type than its field's is refused. The codec has the name of the class without
    its module. So the class may move to another module, and two classes of one name are not
    distinguished.
    """
    to, of = _converters(kind, kind.__name__, ())
    return Codec(
        f"json:{_name(kind)}",
        lambda value: _dump(to(value)),
        lambda encoded: of(_json.loads(encoded)),
    )


def _name(kind):
    return getattr(kind, "__name__", str(kind))


def _checked(kinds, name, place, convert=lambda value: value):
    """Returns a function that refuses values of other types than `kinds`."""

    def check(value):
        # A `bool` is an `int`, but it would come back as another value.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError(f"{place}: {name}, not {type(value).__name__}")
        return convert(value)

    return check


_SCALARS = {
    str: ((str,), str),
    int: ((int,), int),
    float: ((float, int), float),
    bool: ((bool,), bool),
    None: ((type(None),), lambda value: value),
}


def _converters(kind, place, outer):
    """Returns the functions between a type's values and those of JSON.

    `outer` has the dataclasses around the field.
    """
    scalar = None if kind is type(None) else kind
    if scalar is None or (isinstance(scalar, type) and scalar in _SCALARS):
        kinds, convert = _SCALARS[scalar]
        check = _checked(kinds, getattr(scalar, "__name__", "None"), place, convert)
        return check, check
    if kind is bytes:
        text = lambda value: _base64.b64encode(value).decode()  # noqa: E731
        return _checked((bytes,), "bytes", place, text), _base64.b64decode
    if _dataclasses.is_dataclass(kind):
        return _fields(kind, place, outer)
    origin, inner = _typing.get_origin(kind), _typing.get_args(kind)
    if origin is list:
        to, of = _converters(inner[0], place, outer)
        each = _checked((list,), "list", place, lambda items: list(map(to, items)))
        return each, lambda items: list(map(of, items))
    if origin is dict and inner[0] is str:
        to, of = _converters(inner[1], place, outer)
        key = _checked((str,), "keys of type str", place, str)
        each = _checked(
            (dict,), "dict", place, lambda items: {key(k): to(v) for k, v in items.items()}
        )
        return (
            each,
            lambda items: {key: of(item) for key, item in items.items()},
        )
    if origin is tuple and len(inner) == 2 and inner[1] is ...:
        to, of = _converters(inner[0], place, outer)
        each = _checked((tuple,), "tuple", place, lambda items: list(map(to, items)))
        return each, lambda items: tuple(map(of, items))
    if origin is tuple:
        return _tuple(inner, place, outer)
    others = [part for part in inner if part is not type(None)]
    is_union = origin is _typing.Union or origin is getattr(_types, "UnionType", _typing.Union)
    if is_union and len(others) == 1 and len(inner) == 2:  # Optional
        to, of = _converters(others[0], place, outer)
        return (
            lambda value: None if value is None else to(value),
            lambda value: None if value is None else of(value),
        )
    raise TypeError(f"{place}: a field of type {kind} needs a codec, such as `pickle`")


def _tuple(inner, place, outer):
    parts = [_converters(part, place, outer) for part in inner]

    def to_each(items):
        if len(items) != len(parts):
            raise TypeError(f"{place}: a tuple of {len(parts)} items, not {len(items)}")
        return [to(item) for (to, _), item in zip(parts, items)]

    each = _checked((tuple,), "tuple", place, to_each)
    return each, lambda items: tuple(of(item) for (_, of), item in zip(parts, items))


def _fields(kind, place, outer):
    if kind in outer:
        raise TypeError(f"{place}: {kind.__name__} contains itself: use a codec such as `pickle`")
    outer = (*outer, kind)
    hints = _typing.get_type_hints(kind)
    parts = []
    for field in _dataclasses.fields(kind):
        name = f"{place}.{field.name}"
        if not field.init:
            raise TypeError(f"{name}: a field without `init` needs a codec")
        parts.append((field.name, *_converters(hints[field.name], name, outer)))

    def to(value):
        if type(value) is not kind:
            raise TypeError(f"{place}: {kind.__name__}, not {type(value).__name__}")
        return {name: to(getattr(value, name)) for name, to, _ in parts}

    decoders = {name: of for name, _, of in parts}

    def of(fields):
        # A field that the class does not have would be lost by the next write.
        unknown = fields.keys() - decoders.keys()
        if unknown:
            raise TypeError(f"{place} has no field {sorted(unknown)[0]}, which a stored value has")
        return kind(**{name: decoders[name](value) for name, value in fields.items()})

    return to, of


def resolve(value):
    """Returns the type of values that a program names, for the compiled half."""
    if isinstance(value, str):
        if value == "pickle":
            return pickle
        if value == "json":
            return json
        if value == "msgspec":
            return msgspec()
    elif isinstance(value, type) and _dataclasses.is_dataclass(value):
        return dataclass(value)
    return value
