//! Trees against a model so simple that it is right: a list of everything that was ever written, and a peer that is a function of it.

use peers::answer::Answer;
use peers::tree::{At, Cursor, Readable, Tree, Walk, Write};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// What the peer has said once it was told `written`: after some bytes nothing, after others one or two letters that depend on all before.
fn peer(written: &[u8]) -> Vec<u8> {
    let mut said = b"hi".to_vec();
    let mut sum = 7u8;
    for &byte in written {
        sum = sum.wrapping_mul(31).wrapping_add(byte);
        said.extend(std::iter::repeat_n(b'a' + sum % 26, usize::from(sum % 3)));
    }
    said
}

#[derive(Clone, Debug)]
enum Op {
    Write(usize, Vec<u8>),
    Poll(usize),
    Read(usize, usize),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let data = proptest::collection::vec(prop_oneof![Just(b'x'), Just(b'y')], 1..5);
    let op = prop_oneof![
        4 => (any::<usize>(), data).prop_map(|(c, d)| Op::Write(c, d)),
        2 => any::<usize>().prop_map(Op::Poll),
        2 => (any::<usize>(), 0..6usize).prop_map(|(c, n)| Op::Read(c, n)),
    ];
    proptest::collection::vec(op, 1..60)
}

#[derive(Default)]
struct Model {
    written: BTreeSet<Vec<u8>>,
    polled: BTreeSet<Vec<u8>>,
}

impl Model {
    fn knows(&self, text: &[u8]) -> bool {
        text.is_empty() || self.written.iter().any(|w| w.starts_with(text))
    }
    fn last_poll(&self, text: &[u8]) -> Option<&Vec<u8>> {
        self.polled
            .iter()
            .filter(|p| text.starts_with(p))
            .max_by_key(|p| p.len())
    }
    fn readable(&self, text: &[u8], r: u64) -> Readable {
        match peer(text).len() as u64 - r {
            _ if !self.polled.contains(text) => Readable::Unknown,
            0 => Readable::Nothing,
            n => Readable::Data(n),
        }
    }
    fn leaves(&self) -> usize {
        let maximal = |w: &&Vec<u8>| !self.written.iter().any(|v| v.len() > w.len() && v.starts_with(w));
        self.written.iter().filter(maximal).count().max(1)
    }
}

fn poll(tree: &mut Tree, model: &mut Model, text: &[u8], at: At) {
    if !model.polled.contains(text) {
        let known = model.last_poll(text).map_or(0, |p| peer(p).len());
        tree.record(at.pos, &Answer::data(&peer(text)[known..]))
            .expect("the peer is deterministic");
        model.polled.insert(text.to_vec());
    }
}

proptest! {
    #![proptest_config(test_seeds::property(256))]

    #[test]
    fn a_tree_is_a_list_of_conversations(ops in ops()) {
        let (mut tree, mut model) = (Tree::default(), Model::default());
        // All cursors that ever were: any of them may be gone back to.
        let mut cursors: Vec<(Vec<u8>, Cursor)> = vec![(Vec::new(), Tree::start())];
        for op in ops {
            match op {
                Op::Write(which, data) => {
                    let (mut text, mut cursor) = cursors[which % cursors.len()].clone();
                    text.extend(&data);
                    let walk = tree.write(cursor.w, 0, Write::Bytes(&data));
                    prop_assert_eq!(matches!(walk, Walk::Hit(_)), model.knows(&text));
                    cursor.w = tree.insert(cursor.w, 0, Write::Bytes(&data));
                    model.written.insert(text.clone());
                    cursors.push((text, cursor));
                }
                Op::Poll(which) => {
                    let (text, cursor) = cursors[which % cursors.len()].clone();
                    poll(&mut tree, &mut model, &text, cursor.w);
                }
                Op::Read(which, max) => {
                    let (text, mut cursor) = cursors[which % cursors.len()].clone();
                    let data = tree.read(0, cursor, max);
                    let (known, r) = (model.last_poll(&text).map_or(Vec::new(), |p| peer(p)), cursor.r as usize);
                    let rest = known.get(r..).unwrap_or_default();
                    prop_assert_eq!(&data, &rest[..rest.len().min(max)]);
                    cursor.r += data.len() as u64;
                    cursors.push((text, cursor));
                }
            }
            for (text, cursor) in &cursors {
                prop_assert_eq!(tree.readable(0, *cursor), model.readable(text, cursor.r));
            }
        }
        prop_assert_eq!(tree.leaves(), model.leaves());
        let mut ids = HashMap::new();
        for (text, cursor) in &cursors {
            let same = ids.entry(cursor.id()).or_insert((text, cursor.r));
            prop_assert_eq!(*same, (text, cursor.r));
        }
        prop_assert_eq!(ids.len(), cursors.iter().map(|(t, c)| (t, c.r)).collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn identity_does_not_depend_on_how_the_tree_grew(text in proptest::collection::vec(any::<u8>(), 1..40), cuts in proptest::collection::vec(0..40usize, 0..5), other in proptest::collection::vec(any::<u8>(), 1..10)) {
        let (mut whole, mut pieces) = (Tree::default(), Tree::default());
        let at = whole.insert(Tree::root(), 0, Write::Bytes(&text));
        pieces.insert(Tree::root(), 0, Write::Bytes(&other));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(text.len())).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let mut there = Tree::root();
        for pair in cuts.windows(2).filter(|p| p[0] < p[1]) {
            there = pieces.insert(there, 0, Write::Bytes(&text[pair[0]..pair[1]]));
        }
        prop_assert_eq!(at, there);
        prop_assert_eq!(pieces.written(0, there.pos), (text, false));
    }
}

#[test]
fn channels_fin_and_datagrams_are_different_things() {
    let mut tree = Tree::default();
    let root = Tree::root();
    let all = [
        tree.insert(root, 0, Write::Bytes(b"a")),
        tree.insert(root, 1, Write::Bytes(b"a")),
        tree.insert(root, 0, Write::Datagram(b"a")),
        tree.insert(root, 0, Write::Datagram(b"")),
        tree.insert(root, 0, Write::Fin),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|b| a != b && a.pos != b.pos));
    }
    assert_eq!(tree.leaves(), all.len());
    assert_eq!(tree.insert(root, 0, Write::Datagram(b"a")), all[2]);
}
