"""The classes of maps."""

from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView

from ._lastword import MapBase
from .codecs import resolve

_KEYS, _VALUES, _ITEMS = range(3)


class _Values(ValuesView):
    __slots__ = ()

    def __contains__(self, value):
        # The base looks each key up again.
        return any(found is value or found == value for found in self)

    def __iter__(self):
        return self._mapping.scan(_VALUES)

    def __reversed__(self):
        return self._mapping.scan(_VALUES, reverse=True)


class _Items(ItemsView):
    __slots__ = ()

    def __iter__(self):
        return self._mapping.scan(_ITEMS)

    def __reversed__(self):
        return self._mapping.scan(_ITEMS, reverse=True)


class _Keys(KeysView):
    __slots__ = ()

    def __reversed__(self):
        return reversed(self._mapping)


class Map(MapBase, MutableMapping):
    """A map with a name in a pool: `pool.map(name, key=..., value=...)`.

    Inside of a `with pool.transaction()` block of this thread, its operations belong to that
    transaction. Outside, each is a transaction of its own.
    """

    __slots__ = ()
    _ordered = False

    def __new__(cls, source, map, key=None, value=None):
        return super().__new__(cls, source, map, key, resolve(value), cls._ordered)

    def keys(self):
        return _Keys(self)

    def values(self):
        return _Values(self)

    def items(self):
        return _Items(self)

    def update(self, other=(), /, **pairs):
        """Inserts or replaces pairs, all in one transaction."""
        if hasattr(other, "items"):
            found = list(other.items())
        elif hasattr(other, "keys"):
            found = [(key, other[key]) for key in other.keys()]
        else:
            found = [(key, value) for key, value in other]
        found.extend(pairs.items())
        self.put_all(found)


class OrderedMap(Map):
    """A map in the order of its keys: `pool.ordered_map(name, key=..., value=...)`."""

    __slots__ = ()
    _ordered = True

    def range(self, start=None, stop=None, *, inclusive=False, reverse=False):
        """Returns the pairs from `start` up to `stop`, which is left out unless `inclusive`."""
        bounds = {"start": start, "stop": stop, "includes_stop": inclusive, "reverse": reverse}
        return Range(self, bounds)

    def prefix(self, prefix, *, reverse=False):
        """Returns the pairs whose keys begin with a string, or with a tuple's first components."""
        return Range(self, {"prefix": prefix, "reverse": reverse})


class Range:
    """Pairs of an ordered map: iterable, as often as needed."""

    __slots__ = ("_bounds", "_map")

    def __init__(self, map, bounds):
        self._map, self._bounds = map, bounds

    def __iter__(self):
        return self.keys()

    def __reversed__(self):
        bounds = {**self._bounds, "reverse": not self._bounds["reverse"]}
        return self._map.scan(_KEYS, **bounds)

    def keys(self):
        return self._map.scan(_KEYS, **self._bounds)

    def values(self):
        return self._map.scan(_VALUES, **self._bounds)

    def items(self):
        return self._map.scan(_ITEMS, **self._bounds)
