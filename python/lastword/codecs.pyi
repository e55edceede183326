from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

_V = TypeVar("_V")

class Codec(NamedTuple, Generic[_V]):
    name: str
    encode: Callable[[_V], bytes]
    decode: Callable[[bytes], _V]

pickle: Codec[Any]
json: Codec[Any]

def msgspec(kind: Any = None) -> Codec[Any]: ...
def ndarray(dtype: Any, shape: tuple[int, ...] | None = None) -> Codec[Any]: ...
def dataclass(kind: type[_V]) -> Codec[_V]: ...
