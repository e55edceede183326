"""Maps against `dict`: random operations, in transactions that commit or roll back."""

import os
import random
import threading

import pytest

def text(r, characters, length):
    return "".join(r.choice(characters) for _ in range(r.randrange(length)))


KINDS = {
    "str": (str, lambda r: text(r, "aé\U0001f600\0z\uffff", 6)),
    "bytes": (bytes, lambda r: bytes(r.choice((0, 1, 2, 97, 255)) for _ in range(r.randrange(6)))),
    "int": (int, lambda r: r.choice((r.randrange(-9, 9), r.randrange(-(2**63), 2**63)))),
    "u8": ("u8", lambda r: r.randrange(256)),
    "tuple": (
        (str, int, bytes),
        lambda r: (text(r, "a\0\1b", 3), r.randrange(-2, 2), bytes(r.randrange(3))),
    ),
}
SEED = int(os.environ.get("SEED", random.randrange(2**32)))


class Undo(Exception):
    pass


def change(r, map, model, keys):
    """One operation on both."""
    key, value = r.choice(keys), r.randrange(1000)
    what = r.randrange(9)
    if what <= 2:
        map[key] = model[key] = value
    elif what == 3:
        assert map.pop(key, None) == model.pop(key, None)
    elif what == 4:
        assert map.setdefault(key, value) == model.setdefault(key, value)
    elif what == 5:
        assert map.get(key) == model.get(key) and (key in map) == (key in model)
    elif what == 6:
        more = {r.choice(keys): r.randrange(1000) for _ in range(5)}
        map.update(more)
        model.update(more)
    elif what == 7 and key in model:
        del map[key], model[key]
    elif key not in model:
        for call in (lambda: map.pop(key), lambda: map[key], lambda: map.__delitem__(key)):
            with pytest.raises(KeyError) as error:
                call()
            assert error.value.args == (key,)


@pytest.mark.parametrize("ordered", [False, True], ids=["map", "ordered"])
@pytest.mark.parametrize("kind", KINDS)
def test_map_behaves_as_dict(pool, kind, ordered):
    print("SEED", SEED)
    r = random.Random(SEED)
    key_type, make = KINDS[kind]
    open_map = pool.ordered_map if ordered else pool.map
    map, model = open_map("m", key=key_type, value=int), {}
    keys = list({make(r) for _ in range(60)})
    for _ in range(60):
        trial = dict(model)
        try:
            with pool.transaction():
                for _ in range(r.randrange(12)):
                    change(r, map, trial, keys)
                if r.randrange(4) == 0:
                    raise Undo
                if ordered:
                    assert list(map.items()) == sorted(trial.items())
                assert len(map) == len(trial)
            model = trial
        except Undo:
            pass
        change(r, map, model, keys)
        assert map == model and len(map) == len(model) and bool(map) == bool(model)
        if ordered:
            check_order(r, map, model, keys)
    assert pool.check()["collections"]["m"] == len(model)
    map.clear()
    assert not map and list(map) == []


def check_order(r, map, model, keys):
    order = sorted(model)
    assert list(map) == order and list(reversed(map)) == order[::-1]
    assert map.first() == ((order[0], model[order[0]]) if order else None)
    assert map.last() == ((order[-1], model[order[-1]]) if order else None)
    low, high = r.choice(keys), r.choice(keys)
    for stop in (high, None):
        for inclusive in (False, True):
            inside = [
                key
                for key in order
                if key >= low and (stop is None or key < stop or (inclusive and key == stop))
            ]
            found = map.range(low, stop, inclusive=inclusive)
            assert list(found) == inside and list(reversed(found)) == inside[::-1]
    below = [key for key in order if key < high]
    assert list(map.range(stop=high)) == below
    assert list(map.range(stop=high, reverse=True).items()) == [(k, model[k]) for k in below[::-1]]
    if isinstance(low, (str, bytes)):
        begun = [key for key in order if key.startswith(low[:1])]
        prefix = low[:1]
    elif isinstance(low, tuple):
        begun = [key for key in order if key[:2] == low[:2]]
        prefix = low[:2]
    else:
        return
    assert list(map.prefix(prefix)) == begun and list(reversed(map.prefix(prefix))) == begun[::-1]


def test_prefix_of_fixed_tuples_and_last_code_points(pool):
    pairs = pool.ordered_map("pairs", key=("u8", "u8"), value=bool)
    model = sorted((a, b) for a in (0, 1, 254, 255) for b in (0, 7, 255))
    pairs.update({key: True for key in model})
    for first in (0, 1, 2, 254, 255):
        inside = [key for key in model if key[0] == first]
        assert list(pairs.prefix((first,))) == inside
        assert list(pairs.prefix((first,), reverse=True)) == inside[::-1]
    texts = pool.ordered_map("texts", key=str, value=bool)
    model = sorted(["", "\ud7ff", "\ud7ffa", "\ue000", "\U0010ffff", "\U0010ffffa", "a", "b"])
    texts.update({key: True for key in model})
    for prefix in model:
        inside = [key for key in model if key.startswith(prefix)]
        assert list(texts.prefix(prefix)) == inside
        assert list(texts.prefix(prefix, reverse=True)) == inside[::-1]


def test_scan_follows_changes_of_its_transaction(pool):
    map = pool.ordered_map("m", key=int, value=int)
    map.update({key: 0 for key in range(200)})
    with pool.transaction():
        seen = []
        for key in map:
            seen.append(key)
            map.pop(key + 1, None)
        assert seen == list(range(0, 200, 2)) == list(map)


def test_scan_outside_of_transactions_sees_what_stays(pool):
    map = pool.map("m", key=int, value=int)
    map.update({key: key for key in range(3000)})
    seen = []
    for key, value in map.items():
        assert key == value
        seen.append(key)
        if key % 2:
            del map[key]
        map[-1 - key] = -1 - key
        if len(seen) > 20_000:
            break
    assert set(range(0, 3000, 2)) <= set(seen) and len(seen) == len(set(seen))


def test_scan_beside_a_writer_sees_each_pair_once(pool):
    map = pool.ordered_map("m", key=int, value=int)
    keys = list(range(400))
    map.update(dict.fromkeys(keys, 0))
    stop = threading.Event()

    def write():
        n = 0
        while not stop.is_set():
            n += 1
            map[n * 7 % 400] = n

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(60):
            assert list(map) == keys
            assert [key for key, _ in map.range(10, reverse=True).items()] == keys[:9:-1]
    finally:
        stop.set()
        thread.join()


def test_scan_forgets_the_pairs_of_another_transaction(pool):
    map = pool.ordered_map("m", key=int, value=int)
    map.update({key: 0 for key in range(40)})
    items = iter(map.items())
    with pool.transaction() as tx:
        map[100] = 1
        assert [next(items) for _ in range(4)] == [(key, 0) for key in range(4)]
        tx.rollback()
    with pool.transaction():
        map[4] = 1  # as many changes
        assert next(items) == (4, 1)
    assert next(items) == (5, 0)  # and reads ahead
    with pool.transaction():
        map[6] = 1
        del map[5], map[7]
        assert [next(items), next(items)] == [(6, 1), (8, 0)]
    assert [key for key, _ in items] == list(range(9, 40))


@pytest.mark.parametrize("kind", ["map", "ordered", "reverse"])
def test_scan_that_enters_a_transaction_returns_each_pair_once(pool, kind):
    map = (pool.map if kind == "map" else pool.ordered_map)("m", key=int, value=int)
    map.update({key: 0 for key in range(200)})
    seen, keys = [], reversed(map) if kind == "reverse" else iter(map)
    for _ in range(200):
        if len(seen) % 5 == 2:
            with pool.transaction():
                del map[seen[-1]]
                seen.append(next(keys))
        else:
            seen.append(next(keys))
    assert next(keys, None) is None
    assert sorted(seen) == list(range(200))
