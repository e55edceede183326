//! The structural validator.

use std::fmt;

use words::{Stop, Words};
use zerocopy::IntoBytes;

use super::Tree;
use super::node::{Item, Node, head_at};
use super::separator::{Separator, child, key_of, skip_most};
use crate::entry::Entry;

/// Number of findings in one result at most; more would prove no more.
const DAMAGE_MAX: usize = 100;

/// The result of the validator for a part of a map, or for all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Entries seen.
    pub entries: u64,
    /// The encoded key with which the next part starts; `None` after the last part.
    pub next: Option<Vec<u8>>,
    /// Entries that [`clear_step`](crate::BTreeMap::clear_step) has removed and still has to free.
    /// Only a check of the whole map counts them.
    pub pending: u64,
    /// Violated invariants; empty in a sound map, at most 100 findings.
    pub damage: Vec<Damage>,
}

impl Checked {
    pub(crate) fn found(&mut self, damage: Damage) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        }
    }
}

/// A violated invariant of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// An object that is no node of its level, or has a wrong number of items.
    Node {
        /// The node's object.
        node: u64,
        /// Its parent's level less one; for the root its own.
        level: u64,
    },
    /// A node whose order has an invalid slot, or one slot twice.
    Order {
        /// The node's object.
        node: u64,
        /// Position in the order, from 0.
        position: u64,
    },
    /// A key or separator that is not above the one before it.
    KeyOrder {
        /// The node's object.
        node: u64,
        /// Position in the order, from 0.
        position: u64,
    },
    /// A key or separator outside the bounds that the nodes above set.
    Bounds {
        /// The node's object.
        node: u64,
        /// Position in the order, from 0.
        position: u64,
    },
    /// A head that differs from its key or separator.
    Head {
        /// The node's object.
        node: u64,
        /// Position in the order, from 0.
        position: u64,
    },
    /// A node that skips more bytes of its keys than its bounds share.
    Skip {
        /// The node's object.
        node: u64,
        /// Most bytes that it may skip.
        most: u64,
        /// The number in the node.
        found: u64,
    },
    /// A pointer to no entry, or an entry whose bytes are no key or no value of the map's types.
    Entry {
        /// The node's object.
        node: u64,
        /// Position in the order, from 0.
        position: u64,
    },
    /// A length that is not the number of entries.
    Length {
        /// Number of entries.
        expected: u64,
        /// The length; negative in a damaged one.
        found: i64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Damage::Node { node, level } => {
                write!(f, "object {node:#x}: expected a node of level {level}")
            }
            Damage::Order { node, position } => {
                write!(f, "node {node:#x}: position {position}, expected a slot of its own")
            }
            Damage::KeyOrder { node, position } => {
                write!(
                    f,
                    "node {node:#x}: position {position}, expected a key above the one before"
                )
            }
            Damage::Bounds { node, position } => {
                write!(f, "node {node:#x}: position {position}, expected a key within the bounds")
            }
            Damage::Head { node, position } => {
                write!(f, "node {node:#x}: position {position}, expected the head of its key")
            }
            Damage::Skip { node, most, found } => {
                write!(f, "node {node:#x}: expected up to {most} skipped bytes, found {found}")
            }
            Damage::Entry { node, position } => {
                write!(
                    f,
                    "node {node:#x}: position {position}, expected an entry of the map's types"
                )
            }
            Damage::Length { expected, found } => {
                write!(f, "length: expected {expected}, found {found}")
            }
        }
    }
}

/// A check in progress.
struct Check<'a> {
    tree: Tree,
    /// The word of the header that has the root: that of the tree, or of a tree that is being
    /// freed.
    root: u64,
    /// Whether bytes are a key and a value of the map's types.
    is_pair: &'a dyn Fn(&[u8], &[u8]) -> bool,
    checked: Checked,
}

/// A node and its bounds.
struct Place {
    node: Node,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl Tree {
    /// Checks up to `most_leaves` leaves, from that of the key `from` on, and the nodes above.
    pub(crate) fn check<W: Words>(
        self,
        tx: &mut W,
        from: Option<&[u8]>,
        most_leaves: u64,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        self.check_from(tx, super::ROOT, from, most_leaves, is_pair)
    }

    fn check_from<W: Words>(
        self,
        tx: &mut W,
        root: u64,
        from: Option<&[u8]>,
        most_leaves: u64,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        let mut check = Check { tree: self, root, is_pair, checked: Checked::default() };
        let mut next = Some(from.unwrap_or_default().to_vec());
        let mut is_start = true;
        for _ in 0..most_leaves.max(1) {
            let Some(key) = next else { break };
            let leaf = match check.place(tx, &key)? {
                Some(place) => place,
                None => return Ok(check.checked), // damage above, or no node
            };
            let from = from.filter(|_| is_start);
            check.leaf(tx, &leaf, from)?;
            is_start = false;
            // A damaged tree may have a leaf in many places, and all but one are damage.
            let is_hopeless = check.checked.damage.len() == DAMAGE_MAX;
            next = leaf.high.filter(|_| !is_hopeless);
        }
        check.checked.next = next;
        Ok(check.checked)
    }

    /// Checks all, the length, and the tree that is being freed.
    pub(crate) fn check_whole<W: Words>(
        self,
        tx: &mut W,
        is_pair: &dyn Fn(&[u8], &[u8]) -> bool,
    ) -> Result<Checked, Stop> {
        let mut checked = self.check(tx, None, u64::MAX, is_pair)?;
        if checked.damage.is_empty() {
            self.check_length(tx, &mut checked)?;
        }
        let pending = self.check_from(tx, super::CLEARED, None, u64::MAX, is_pair)?;
        checked.pending = pending.entries;
        for damage in pending.damage {
            checked.found(damage);
        }
        Ok(checked)
    }

    fn check_length<W: Words>(self, tx: &mut W, checked: &mut Checked) -> Result<(), Stop> {
        let is_leaf = self.root(tx)?.is_none_or(|root| root.level() == 0);
        let (expected, found) = (checked.entries, self.length().check(tx)?);
        // A leaf has the length itself.
        let counted = if is_leaf { 0 } else { expected };
        if u64::try_from(found) != Ok(counted) {
            checked.found(Damage::Length { expected: counted, found });
        }
        Ok(())
    }
}

impl Check<'_> {
    /// Opens a node; a wrong one is damage.
    fn open<W: Words>(
        &mut self,
        tx: &mut W,
        object: u64,
        level: usize,
    ) -> Result<Option<Node>, Stop> {
        match Node::open(tx, self.tree.form, object, level) {
            Err(Stop::BadValue) => {
                self.checked.found(Damage::Node { node: object, level: level as u64 });
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    const fn is_freed(&self) -> bool {
        self.root == super::CLEARED
    }

    /// Returns whether a node has a root's number of items.
    const fn is_root(&self, node: &Node) -> bool {
        match self.is_freed() {
            true => node.count() > 0,
            false => node.level() == 0 || node.count() > 1,
        }
    }

    /// Descends to the leaf of a key, and checks each inner node on the path.
    fn place<W: Words>(&mut self, tx: &mut W, key: &[u8]) -> Result<Option<Place>, Stop> {
        let root = tx.read(self.tree.header_at(self.root))?;
        if root == 0 {
            return Ok(None);
        }
        let node = match Node::open_root(tx, self.tree.form, root) {
            Ok(node) if self.is_root(&node) => node,
            Ok(_) | Err(Stop::BadValue) => {
                self.checked.found(Damage::Node { node: root, level: 0 });
                return Ok(None);
            }
            Err(stop) => return Err(stop),
        };
        let mut place = Place { node, low: None, high: None };
        while place.node.level() > 0 {
            let Some(separators) = self.inner(tx, &place)? else {
                return Ok(None);
            };
            let position = separators.partition_point(|separator| separator.as_slice() <= key);
            let Some(position) = position.checked_sub(1) else {
                return Ok(None);
            };
            if position > 0 {
                place.low = Some(separators[position].clone());
            }
            if let Some(high) = separators.get(position + 1) {
                place.high = Some(high.clone());
            }
            let object = child(self.tree.form, &place.node.item(tx, position)?);
            let level = place.node.level() - 1;
            let Some(node) = self.open(tx, object, level)? else {
                return Ok(None);
            };
            place.node = node;
        }
        Ok(Some(place))
    }

    /// Checks an inner node and returns its separators; `None` when a descent cannot continue
    /// through it.
    fn inner<W: Words>(&mut self, tx: &mut W, place: &Place) -> Result<Option<Vec<Vec<u8>>>, Stop> {
        let form = self.tree.form;
        let Some(items) = self.items(tx, place)? else {
            return Ok(None);
        };
        let object = place.node.object;
        let prefix = place.low.clone().unwrap_or_default();
        let mut separators = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let at = position as u64;
            if position == 0 {
                if item.head != 0 || !form.is_exact() && item.rest[0] != 0 {
                    self.checked.found(Damage::Head { node: object, position: at });
                    return Ok(None);
                }
                separators.push(Vec::new());
                continue;
            }
            let skip = place.node.skip();
            let separator = match Separator::of(tx, form, item, (skip, &prefix)) {
                Ok(separator) => separator.bytes,
                Err(Stop::BadValue) => {
                    self.checked.found(Damage::Entry { node: object, position: at });
                    return Ok(None);
                }
                Err(stop) => return Err(stop),
            };
            if head_at(&separator, skip) != item.head {
                self.checked.found(Damage::Head { node: object, position: at });
                return Ok(None);
            }
            let before = separators.last().filter(|_| position > 1);
            if !self.is_in_place(place, (at, &separator), before.map(Vec::as_slice), true) {
                return Ok(None);
            }
            separators.push(separator);
        }
        Ok(Some(separators))
    }

    /// Checks a leaf, and counts its entries from a key on.
    fn leaf<W: Words>(
        &mut self,
        tx: &mut W,
        place: &Place,
        from: Option<&[u8]>,
    ) -> Result<(), Stop> {
        let (form, object) = (self.tree.form, place.node.object);
        let Some(items) = self.items(tx, place)? else {
            return Ok(());
        };
        let mut before: Option<Vec<u8>> = None;
        for (position, item) in items.iter().enumerate() {
            let at = position as u64;
            let key = match key_of(tx, form, item) {
                Ok(key) if self.is_pair(tx, item, &key)? => key,
                Ok(_) | Err(Stop::BadValue) => {
                    self.checked.found(Damage::Entry { node: object, position: at });
                    continue;
                }
                Err(stop) => return Err(stop),
            };
            if head_at(&key, place.node.skip()) != item.head {
                self.checked.found(Damage::Head { node: object, position: at });
            }
            self.is_in_place(place, (at, &key), before.as_deref(), false);
            self.checked.entries += u64::from(from.is_none_or(|from| *key >= *from));
            before = Some(key);
        }
        Ok(())
    }

    /// Returns whether the bytes of an item are those of a key and a value.
    fn is_pair<W: Words>(&self, tx: &mut W, item: &Item, key: &[u8]) -> Result<bool, Stop> {
        if let Some(bytes) = self.tree.form.value() {
            return Ok((self.is_pair)(key, &item.rest.as_bytes()[..bytes]));
        }
        let entry = Entry::open(tx, item.rest[0])?;
        Ok(entry.is_key(tx, key)? && entry.value(tx, |value| Ok((self.is_pair)(key, &value)))?)
    }

    /// Returns the items of a node, after a check of its order and of the bytes that it skips.
    fn items<W: Words>(&mut self, tx: &mut W, place: &Place) -> Result<Option<Vec<Item>>, Stop> {
        let node = &place.node;
        let mut seen = 0_u64;
        for position in 0..node.slots() {
            let slot = node.slot(position).unwrap_or(63);
            if slot == 63 || seen & (1 << slot) != 0 {
                self.checked.found(Damage::Order { node: node.object, position: position as u64 });
                return Ok(None);
            }
            seen |= 1 << slot;
        }
        // A tree that is being freed has lost the upper bounds at its end, and the nodes there
        // still skip what they had in common.
        let low = place.low.as_deref();
        let high = place.high.as_deref().or(low.filter(|_| self.is_freed()));
        let bounds = (low, high);
        let (most, found) = (skip_most(self.tree.form, bounds) as u64, node.skip() as u64);
        if found > most {
            self.checked.found(Damage::Skip { node: node.object, most, found });
            return Ok(None);
        }
        node.items(tx).map(Some)
    }

    /// Checks that a key lies above the one before it and within a node's bounds.
    fn is_in_place(
        &mut self,
        place: &Place,
        (position, key): (u64, &[u8]),
        before: Option<&[u8]>,
        is_separator: bool,
    ) -> bool {
        let node = place.node.object;
        if before.is_some_and(|before| before >= key) {
            self.checked.found(Damage::KeyOrder { node, position });
            return false;
        }
        let is_low = place
            .low
            .as_deref()
            .is_some_and(|low| if is_separator { key <= low } else { key < low });
        if is_low || place.high.as_deref().is_some_and(|high| key >= high) {
            self.checked.found(Damage::Bounds { node, position });
            return false;
        }
        true
    }
}
