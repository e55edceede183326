"""Types of keys and values, codecs, and the types in the catalog."""

import dataclasses
import json
import sys
import threading
import typing

import pytest

import lastword


@dataclasses.dataclass
class Place:
    street: str
    number: int = 0


@dataclasses.dataclass
class User:
    name: str
    age: int
    score: float = 0.5
    blob: bytes = b""
    place: typing.Optional[Place] = None
    tags: typing.List[str] = dataclasses.field(default_factory=list)
    pair: typing.Tuple[int, str] = (0, "")
    places: typing.Dict[str, Place] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Mixed:
    counts: typing.Dict[str, int]
    rest: typing.Tuple[int, ...] = ()
    number: float = 0.0


@dataclasses.dataclass
class Tree:
    children: typing.List["Tree"]


class Unreadable:
    def __buffer__(self, flags):
        raise ZeroDivisionError


VALUES = [
    (bytes, b"\0\xff", "[u8]"),
    (str, "é\0", "str"),
    (int, -(2**63), "i64"),
    (float, 0.1, "f64"),
    ("f32", 0.5, "f32"),
    (bool, True, "bool"),
    ("u16", 65535, "u16"),
    ("pickle", {"a": (1, {2})}, "pickle"),
    ("json", {"a": [1, None, "é"]}, "json"),
    (
        User,
        User("ann", 40, 1.5, b"\0\xff", Place("x", 3), ["a"], (1, "b"), {"k": Place("y")}),
        "json:User",
    ),
]


@pytest.mark.parametrize("kind, value, name", VALUES, ids=[row[2] for row in VALUES])
def test_value_returns_as_stored(path, kind, value, name):
    with lastword.open(path, relaxed=True) as pool:
        map = pool.map("m", value=kind)
        map["a"] = value
        assert map.types == f"HashMap<str, {name}>"
    with lastword.open(path) as pool:
        found = pool.map("m", value=kind)["a"]
        assert found == value and type(found) is type(value)


def test_buffers_are_bytes(pool):
    map = pool.map("m", key=bytes, value=bytes)
    map[bytearray(b"a")] = bytearray(b"b")
    map[b"c"] = memoryview(b"d")
    assert dict(map) == {b"a": b"b", b"c": b"d"}


def test_other_types_are_refused_with_both_names(pool):
    pool.map("m", key=(str, int), value="pickle")
    both = r"HashMap<\(str, i64\), pickle>.* not .*str, json"
    with pytest.raises(lastword.WrongType, match=both):
        pool.map("m", key=str, value="json")
    with pytest.raises(TypeError, match="BTreeMap"):
        pool.ordered_map("m", key=(str, int), value="pickle")


def test_wrong_keys_and_values_change_nothing(pool):
    map = pool.map("m", key=str, value=int)
    for key, value in [(1, 1), (b"a", 1), ("a", "1"), ("a", 1.5), ("a", None)]:
        with pytest.raises(TypeError):
            map[key] = value
    with pytest.raises(OverflowError):
        map["a"] = 2**63
    with pytest.raises(UnicodeEncodeError):
        map["\ud800"] = 1
    with pytest.raises(TypeError):
        map[1]
    assert len(map) == 0
    for kind in [list, (str,), (str, list), object(), "u128"]:
        with pytest.raises((TypeError, ValueError)):
            pool.map("other", key=kind)
    with pytest.raises(TypeError):
        pool.map("other", value=list)
    assert list(pool.collections()) == ["m"]


def test_own_codec_and_its_errors(pool):
    codec = lastword.Codec("upper", lambda text: text.upper().encode(), bytes.decode)
    map = pool.map("m", value=codec)
    map["a"] = "x"
    assert map["a"] == "X"
    with pytest.raises(AttributeError):
        map["a"] = 1
    broken = lastword.Codec("upper", str, json.loads)
    with pytest.raises(TypeError, match="not bytes"):
        pool.map("m", value=broken)["a"] = 1
    with pytest.raises(ValueError):
        pool.map("m", value=broken)["a"]
    for name in ["", "str", "u64", "a\nb"]:
        with pytest.raises(ValueError):
            pool.map("n", value=lastword.Codec(name, str.encode, bytes.decode))


def test_dataclass_fields_may_be_added_and_not_lost(pool):
    old = dataclasses.make_dataclass("Item", [("a", int)])
    new = dataclasses.make_dataclass("Item", [("a", int), ("b", str, "x")])
    pool.map("m", value=old)["k"] = old(1)
    assert pool.map("m", value=new)["k"] == new(1, "x")
    pool.map("m", value=new)["k"] = new(1, "y")
    with pytest.raises(TypeError, match="no field b"):
        pool.map("m", value=old)["k"]
    with pytest.raises(TypeError, match="needs a codec"):
        pool.map("n", value=dataclasses.make_dataclass("Set", [("a", typing.Set[int])]))


def test_msgspec_and_numpy_if_they_are_installed(pool):
    msgspec = pytest.importorskip("msgspec")
    numpy = pytest.importorskip("numpy")
    map = pool.map("msgpack", value=lastword.codecs.msgspec(typing.Dict[str, int]))
    map["a"] = {"x": 1}
    assert map["a"] == {"x": 1}
    assert pool.map("any", value="msgspec").types == "HashMap<str, msgpack>"
    assert msgspec is not None
    arrays = pool.map("arrays", value=lastword.codecs.ndarray("float64", (2, 3)))
    arrays["a"] = numpy.arange(6.0).reshape(2, 3)
    found = arrays["a"]
    assert (found == numpy.arange(6.0).reshape(2, 3)).all() and not found.flags.writeable
    with pytest.raises(TypeError):
        arrays["a"] = numpy.arange(6)


def test_value_that_cannot_be_decoded_is_not_removed(pool):
    broken = lastword.Codec("broken", str.encode, json.loads)
    for map in (pool.map("m", value=broken), pool.ordered_map("o", value=broken)):
        map["a"] = "{"
        for call in (lambda: map.pop("a"), lambda: map.pop("a", None), map.popitem):
            with pytest.raises(ValueError):
                call()
        assert list(map) == ["a"]
        map["a"] = "1"
        assert map.popitem() == ("a", 1) and not map


def test_pop_of_many_threads_returns_each_pair_once(pool):
    map = pool.ordered_map("m", key=int, value=int)
    map.update({n: n for n in range(200)})
    popped = []

    def work():
        while True:
            try:
                popped.append(map.popitem()[0])
            except KeyError:
                return

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(popped) == list(range(200)) and not map


def test_values_are_not_changed_silently(pool):
    for kind, value, error in [
        ("f32", 1e300, OverflowError),
        (float, 10**400, OverflowError),
        (float, "1", TypeError),
        ("json", float("nan"), ValueError),
        (bytes, Unreadable(), ZeroDivisionError if sys.version_info >= (3, 12) else TypeError),
        (Place, Place(1), TypeError),
        (Place, Place("a", "1"), TypeError),
        (Place, Place("a", True), TypeError),
        (Mixed, Mixed({1: 2}), TypeError),
        (Mixed, Mixed({}, [1]), TypeError),
        (Mixed, Mixed({}, (), float("nan")), ValueError),
        (Mixed, Mixed({}, (), "1"), TypeError),
    ]:
        map = pool.map(str(kind), value=kind)
        with pytest.raises(error):
            map["a"] = value
        assert not map
    map = pool.map("m", value=Mixed)
    map["a"] = Mixed({"a": 1}, (2,), 3)
    assert map["a"] == Mixed({"a": 1}, (2,), 3.0) and type(map["a"].number) is float
    assert pool.map("f32", value="f32").setdefault("a", float("inf")) == float("inf")


def test_recursive_and_other_fields_need_a_codec(pool):
    with pytest.raises(TypeError, match="Tree.children: Tree contains itself"):
        pool.map("m", value=Tree)
    for kind in (typing.Dict[int, None], typing.Union[int, str]):
        with pytest.raises(TypeError, match="needs a codec"):
            pool.map("m", value=dataclasses.make_dataclass("Item", [("a", kind)]))


def test_errors_of_tuple_keys_name_position_and_length(pool):
    map = pool.map("m", key=(str, int, bytes))
    with pytest.raises(TypeError, match="component 1 is of type i64, not str"):
        map["a", "b", b""]
    with pytest.raises(TypeError, match="3 components.* not 2"):
        map["a", 1]


def test_setdefault_and_values_behave_as_those_of_dict(pool):
    map = pool.map("m", value="json")
    assert map.setdefault("a") is None and map["a"] is None and None in map.values()
    numbers = pool.map("numbers", value=int)
    numbers["a"] = 1
    assert numbers.setdefault("a") == 1 and 1 in numbers.values() and 2 not in numbers.values()
    with pytest.raises(TypeError):
        numbers.setdefault("b")
