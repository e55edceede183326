//! Each broken condition is found; the cases of several warehouses.

use words::mock::Mock;
use words::{Field, Objects, Persist, Transact};

use super::rows::{Customer, Line, Order, Warehouse};
use super::*;

fn loaded<I: Index>(scale: f64) -> (Mock, Tpcc<I>) {
    let options = Options { scale, ..Options::default() };
    let mut mock = Mock::forgiving(Tpcc::<I>::heap_bytes(&options) as usize);
    let tpcc = Tpcc::<I>::load(&mut mock, &options).unwrap();
    (mock, tpcc)
}

/// Runs a client's orders; returns how many aborted themselves.
fn run<I: Index>(mock: &mut Mock, tpcc: &Tpcc<I>, client: &mut TpccClient, orders: u64) -> u64 {
    let mut given_up = 0;
    for _ in 0..orders {
        tpcc.next(client);
        let done = mock.transact(|tx| tpcc.run(client, tx)).map_err(|refused| refused.stop);
        assert_eq!(done, if tpcc.gives_up(client) { Err(Stop::Aborted) } else { Ok(()) });
        given_up += u64::from(done.is_err());
    }
    given_up
}

fn change<P: Persist>(mock: &mut Mock, place: Field<P>, change: impl Fn(&mut P)) {
    mock.transact(|tx| {
        let mut value = tx.get(place)?;
        change(&mut value);
        tx.set(place, value)
    })
    .unwrap();
}

/// Returns the conditions that break when `damage` is done to a sound supplier.
fn broken(damage: impl Fn(&mut Mock, &Tpcc<HashMap>)) -> Vec<u8> {
    let (mut mock, tpcc) = loaded::<HashMap>(0.002);
    run(&mut mock, &tpcc, &mut tpcc.client(0, 1), 200);
    assert_eq!(tpcc.check(&mut mock).unwrap(), []);
    damage(&mut mock, &tpcc);
    let found = tpcc.check(&mut mock).unwrap();
    let number = |violation: &Violation| match violation {
        Violation::Condition { number, .. } => Some(*number),
        _ => None,
    };
    let mut numbers: Vec<u8> = found.iter().filter_map(number).collect();
    numbers.dedup();
    numbers
}

/// Returns the third district's last order.
fn last_order(mock: &mut Mock, tpcc: &Tpcc<HashMap>) -> (u64, u64) {
    let row = tpcc.tables.districts.at(tables::place_of_district(3)).unwrap();
    let next = mock.transact(|tx| tx.get(field!(row, rows::District, next_order))).unwrap();
    (3, next - 1)
}

#[test]
fn every_broken_tpcc_condition_is_found() {
    let year = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        change(mock, tpcc.tables.warehouses.at(0).unwrap(), |row: &mut Warehouse| {
            row.year_to_date += 1;
        });
    };
    assert_eq!(broken(year), [1]);
    let next = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        let place = tpcc.tables.districts.at(tables::place_of_district(3)).unwrap();
        change(mock, place, |row| row.next_order += 1);
    };
    assert_eq!(broken(next), [2]);
    let gap = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        let (district, id) = last_order(mock, tpcc);
        let key = key::order(district, id - 1);
        mock.transact(|tx| tpcc.own(tx, 1)?.unwrap().new_orders.remove(tx, key)).unwrap();
    };
    assert_eq!(broken(gap), [3, 5, 11]);
    let newest = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        let (district, id) = last_order(mock, tpcc);
        let key = key::order(district, id);
        mock.transact(|tx| tpcc.own(tx, 1)?.unwrap().new_orders.remove(tx, key)).unwrap();
    };
    assert_eq!(broken(newest), [2, 5, 11]);
    let line = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        let (district, id) = last_order(mock, tpcc);
        let key = key::line(district, id, 2);
        mock.transact(|tx| tpcc.own(tx, 1)?.unwrap().lines.remove(tx, key)).unwrap();
    };
    assert_eq!(broken(line), [4, 6]);
    let carrier = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        let (district, id) = last_order(mock, tpcc);
        let place = tpcc.tables.orders.at(tpcc.shape.slot(district, id)).unwrap();
        change(mock, place, |row: &mut Order| row.carrier = 7);
    };
    assert_eq!(broken(carrier), [7, 5]);
    let delivered = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        let (district, id) = last_order(mock, tpcc);
        let place = tpcc.tables.lines.at(tpcc.shape.slot(district, id) * LINE_SLOTS).unwrap();
        change(mock, place, |row| row.delivered = 1);
    };
    assert_eq!(broken(delivered), [7]);
    let balance = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        change(mock, tpcc.tables.customers.at(5).unwrap(), |row: &mut Customer| row.balance = 0);
    };
    assert_eq!(broken(balance), [10, 12]);
    let paid = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        change(mock, tpcc.tables.customers.at(5).unwrap(), |row: &mut Customer| row.paid += 1);
    };
    assert_eq!(broken(paid), [12]);
    let order = |mock: &mut Mock, tpcc: &Tpcc<HashMap>| {
        let (district, id) = last_order(mock, tpcc);
        let key = key::order(district, id);
        mock.transact(|tx| tpcc.own(tx, 1)?.unwrap().orders.remove(tx, key)).unwrap();
    };
    assert!(broken(order).contains(&11));
}

/// A row of zeros, from a lost write or another program, is a violation and not a panic.
#[test]
fn line_of_zeros_is_found() {
    for whole in [false, true] {
        let (mut mock, tpcc) = loaded::<HashMap>(0.002);
        run(&mut mock, &tpcc, &mut tpcc.client(0, 1), 20);
        let (district, id) = last_order(&mut mock, &tpcc);
        let place = tpcc.tables.lines.at(tpcc.shape.slot(district, id) * LINE_SLOTS).unwrap();
        change(&mut mock, place, |row: &mut Line| {
            row.district = 0;
            if whole {
                (row.order, row.item, row.supplier) = (0, 0, 0);
                (row.number, row.quantity, row.amount) = (0, 0, 0);
            }
        });
        let found = tpcc.check(&mut mock).unwrap();
        let is_named =
            |v: &Violation| matches!(v, Violation::Count { what: "key in a line's row", .. });
        assert!(found.iter().any(is_named), "{found:?}");
    }
}

fn stock_is_found_wrong(damage: impl Fn(&mut rows::Level), what: &str) {
    let (mut mock, tpcc) = loaded::<BTreeMap>(0.002);
    run(&mut mock, &tpcc, &mut tpcc.client(0, 1), 100);
    let place = tpcc.tables.stock.at(7).unwrap();
    change(&mut mock, place, |row| damage(&mut row.level));
    let found = tpcc.check(&mut mock).unwrap();
    let is_named = |v: &Violation| matches!(v, Violation::Count { what: w, .. } if *w == what);
    assert!(found.iter().any(is_named), "{what}: {found:?}");
}

#[test]
fn stock_that_disagrees_with_orders_is_found() {
    stock_is_found_wrong(|level| *level = level.take(3, false), "orders in all rows of stock");
    stock_is_found_wrong(|level| level.remote += 1, "remote orders in the stock");
    stock_is_found_wrong(
        |level| {
            let orders = level.orders;
            *level = level.take(91, false);
            level.orders = orders;
        },
        "pieces ordered in all rows of stock",
    );
}

/// Loads a supplier whose size is this number: warehouses, and rows of each, both few.
fn loaded_with<I: Index>(size: u64) -> (Mock, Tpcc<I>) {
    let options = Options { scale: 0.01, ..Options::default() };
    let mut mock = Mock::new(Tpcc::<I>::heap_bytes(&options) as usize);
    let tables = root::load::<Tpcc<I>, Mock>(&mut mock, size).unwrap();
    (mock, Tpcc::<I>::of(Shape::of_size(size), tables))
}

/// Runs two warehouses of few rows.
fn several_warehouses_hold<I: Index>() {
    let (mut mock, tpcc) = loaded_with::<I>(2 << 32 | 8);
    let mut clients = [0, 1].map(|index| tpcc.client(index, 1));
    assert_eq!(clients[1].warehouse, 2);
    let given_up: u64 = clients.iter_mut().map(|client| run(&mut mock, &tpcc, client, 1000)).sum();
    assert!((5..50).contains(&given_up), "{given_up} of 2000");
    assert_eq!(tpcc.check(&mut mock).unwrap(), []);
    let mut remote = 0;
    for client in &clients {
        assert!(mock.transact(|tx| tpcc.is_present(client, tx)).unwrap());
        let place = tpcc.tables.terminals.at(place_of_terminal(client.index)).unwrap();
        remote += mock.transact(|tx| tx.get(place)).unwrap().done.remote;
    }
    assert!((100..300).contains(&remote), "{remote} of 20 000 lines are remote");
}

#[test]
fn several_warehouses_deliver_for_each_other() {
    several_warehouses_hold::<HashMap>();
    several_warehouses_hold::<BTreeMap>();
}

#[test]
fn warehouse_locks_isolate_orders() {
    use crate::watch::{Finding, Watch, Watched};
    for forgets in [false, true] {
        let (mut mock, tpcc) = loaded_with::<HashMap>(3 << 32 | 7);
        let mut watch = Watch::default();
        let mut clients = [0, 1, 2, 3].map(|index| tpcc.client(index, 1));
        for _ in 0..300 {
            for (worker, client) in clients.iter_mut().enumerate() {
                tpcc.next(client);
                let (mock, watch) = (&mut mock, &mut watch);
                let done = Watched { mock, watch, worker, forgets }
                    .transact(|tx| tpcc.run(client, tx).map(|()| client.stamp));
                assert_eq!(done.is_err(), tpcc.gives_up(client));
            }
        }
        let found = watch.findings();
        let is_caught = found.iter().any(|finding| matches!(finding, Finding::Word(..)));
        assert!(is_caught == forgets && found.is_empty() != forgets, "{found:?}");
        assert!(forgets || watch.orders() > 2, "no two warehouses in one order");
    }
}

/// An order in the index of a warehouse that it does not belong to.
#[test]
fn order_in_another_warehouse_is_found() {
    let (mut mock, tpcc) = loaded_with::<HashMap>(2 << 32 | 4);
    mock.transact(|tx| {
        let [own, other] = [tpcc.own(tx, 1)?.unwrap(), tpcc.own(tx, 2)?.unwrap()];
        let key = key::order(3, 2);
        let slot = own.orders.remove(tx, key)?.unwrap();
        own.new_orders.remove(tx, key)?;
        Index::insert(other.orders, tx, key, slot)?;
        Index::insert(other.new_orders, tx, key, 2)
    })
    .unwrap();
    let found = tpcc.check(&mut mock).unwrap();
    let strangers = found
        .iter()
        .filter(|v| matches!(v, Violation::Key { found, .. } if *found == key::order(3, 2)));
    assert_eq!(strangers.count(), 2, "{found:?}");
}

#[test]
fn worker_serves_only_its_district() {
    let (mut mock, tpcc) = loaded::<BTreeMap>(0.002);
    let options = Options { low_conflict: true, ..Options::default() };
    // Every other district first; each has one worker.
    let mut served = Vec::new();
    for index in 0..10 {
        let mut client = tpcc.client(index, 1);
        tpcc.tune(&mut client, &options);
        run(&mut mock, &tpcc, &mut client, 1);
        let only = client.district;
        served.push(only);
        for _ in 0..50 {
            run(&mut mock, &tpcc, &mut client, 1);
            assert_eq!(client.district, only);
        }
    }
    assert_eq!(served, [1, 3, 5, 7, 9, 2, 4, 6, 8, 10]);
    assert_eq!(tpcc.check(&mut mock).unwrap(), []);
}

/// The objects that a worker's orders write.
#[derive(Default)]
struct Written(std::collections::HashSet<u64>);

impl Written {
    fn run<I: Index>(&mut self, mock: &mut Mock, tpcc: &Tpcc<I>, client: &mut TpccClient) {
        tpcc.next(client);
        let done = mock.transact(|tx| {
            let before = std::mem::take(&mut self.0);
            let mut noting = Noting { tx, written: before };
            let done = tpcc.run(client, &mut noting);
            self.0 = noting.written;
            done
        });
        assert!(done.is_ok() || tpcc.gives_up(client));
    }
}

/// A transaction that records the objects it writes.
struct Noting<'a> {
    tx: &'a mut Mock,
    written: std::collections::HashSet<u64>,
}

impl Words for Noting<'_> {
    fn read(&mut self, at: words::Addr) -> Result<u64, Stop> {
        self.tx.read(at)
    }
    fn write(&mut self, at: words::Addr, value: u64) -> Result<(), Stop> {
        self.written.insert(at.object);
        self.tx.write(at, value)
    }
    fn retire(&mut self, at: words::Addr, bytes: u64) -> Result<(), Stop> {
        self.written.remove(&at.object); // another worker may reuse its memory
        self.tx.retire(at, bytes)
    }
}

impl Allocate for Noting<'_> {
    fn allocate(&mut self, bytes: usize) -> Result<u64, Stop> {
        self.tx.allocate(bytes)
    }
    fn reserve_blocks(&mut self, blocks: u64) -> Result<u64, Stop> {
        self.tx.reserve_blocks(blocks)
    }
    fn prepare_blocks(&mut self, first: u64, most: u64) -> Result<u64, Stop> {
        self.tx.prepare_blocks(first, most)
    }
    fn allocate_pieces(&mut self, bytes: u64) -> Result<u64, Stop> {
        self.tx.allocate_pieces(bytes)
    }
    fn resize(&mut self, first: u64, from: u64, to: u64) -> Result<bool, Stop> {
        self.tx.resize(first, from, to)
    }
    fn root(&mut self) -> Result<u64, Stop> {
        self.tx.root()
    }
    fn set_root(&mut self, object: u64) -> Result<(), Stop> {
        self.tx.set_root(object)
    }
}

#[test]
fn workers_with_own_warehouses_share_no_writes() {
    let options = Options { scale: 1.01, workers: 2, low_conflict: true, ..Options::default() };
    let mut mock = Mock::forgiving(Tpcc::<BTree32>::heap_bytes(&options) as usize);
    let mut shape = Shape::of(&options);
    shape = Shape::of_size(shape.size() & !0xffff_ffff | 30);
    let tables = root::load::<Tpcc<BTree32>, _>(&mut mock, shape.size()).unwrap();
    let tpcc = Tpcc::<BTree32>::of(shape, tables);
    let mut clients = [0, 1].map(|index| tpcc.client(index, 1));
    let mut written = [Written::default(), Written::default()];
    for client in &mut clients {
        tpcc.tune(client, &options);
    }
    for _ in 0..400 {
        for (client, written) in clients.iter_mut().zip(&mut written) {
            written.run(&mut mock, &tpcc, client);
        }
    }
    let both: Vec<u64> = written[0].0.intersection(&written[1].0).copied().collect();
    assert!(written.iter().all(|written| written.0.len() > 100));
    assert_eq!(both, []);
    assert_eq!(tpcc.check(&mut mock).unwrap(), []);
}

#[test]
fn misplaced_order_is_found() {
    let options = Options { scale: 0.002, ..Options::default() };
    let mut mock = Mock::forgiving(TpccRows::heap_bytes(&options) as usize);
    let tpcc = TpccRows::load(&mut mock, &options).unwrap();
    let mut client = tpcc.client(0, 1);
    for _ in 0..200 {
        tpcc.next(&mut client);
        let done = mock.transact(|tx| tpcc.run(&client, tx)).is_ok();
        assert_eq!(done, !tpcc.gives_up(&client));
    }
    assert_eq!(tpcc.check(&mut mock).unwrap(), []);
    // An order 1000 rounds of them later has the same place.
    assert_eq!(tpcc.shape.kept(), 6);
    let place = tpcc.tables.orders.at(tpcc.shape.slot(3, 2)).unwrap();
    // A greater order than the district has assigned; a line of an older order; one order less.
    let damages: [fn(&mut Order); 3] =
        [|row| row.id += 6000, |row| row.lines += 1, |row| row.carrier = 7];
    for (which, damage) in damages.into_iter().enumerate() {
        let before = mock.transact(|tx| tx.get(place)).unwrap();
        change(&mut mock, place, damage);
        assert_ne!(tpcc.check(&mut mock).unwrap(), [], "{which}");
        change(&mut mock, place, |row| *row = before);
    }
    assert_eq!(tpcc.check(&mut mock).unwrap(), []);
}

#[test]
fn aborting_order_does_all_its_work() {
    let (mut mock, tpcc) = loaded::<HashMap>(0.002);
    let mut client = tpcc.client(0, 1);
    while !tpcc.gives_up(&client) {
        tpcc.next(&mut client);
    }
    let row = tpcc.tables.districts.at(tables::place_of_district(client.district)).unwrap();
    let next_order = field!(row, rows::District, next_order);
    let before = mock.transact(|tx| tx.get(next_order)).unwrap();
    // A body that swallows the abort shows the work done by then.
    mock.transact(|tx| {
        assert_eq!(tpcc.run(&client, tx), Err(Stop::Aborted));
        assert_eq!(tx.get(next_order), Ok(before + 1));
        let last = client.lines().len() as u64 - 1;
        let key = key::line(client.district, before, last);
        assert!(Index::get(tpcc.own(tx, 1)?.unwrap().lines, tx, key)?.is_some());
        Err::<(), Stop>(Stop::Aborted)
    })
    .unwrap_err();
    assert_eq!(mock.transact(|tx| tx.get(next_order)).unwrap(), before);
}

#[test]
fn shape_follows_from_the_scale() {
    let shape = |scale| Shape::of(&Options { scale, ..Options::default() });
    assert_eq!((shape(1.0).warehouses, shape(1.0).customers()), (1, 3000));
    assert_eq!(shape(1.0).items(), 100_000);
    assert_eq!((shape(3.0).warehouses, shape(3.0).customers()), (3, 3000));
    assert_eq!((shape(1.5).warehouses, shape(1.5).customers()), (2, 2250));
    assert_eq!((shape(1e-9).warehouses, shape(1e-9).customers()), (1, 4));
    assert_eq!(Shape::of_size(shape(1.5).size()), shape(1.5));
    // A damaged root.
    for size in [0, u64::MAX, 1 << 63] {
        let shape = Shape::of_size(size);
        assert!(shape.warehouses >= 1 && shape.orders() >= 40);
    }
    let key = key::line(39_999, 123_456_789, 15);
    assert_eq!(key::of_line(key), (39_999, 123_456_789, 15));
    assert_eq!(key::of_order(key::order(39_999, 1 << 43)), (39_999, 1 << 43));
}
