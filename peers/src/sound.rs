//! Whether a tree that comes from a file is one that could have grown: everything else relies on it.
//!
//! A checksum tells damage, not intent. What is checked here is what the code of trees takes for granted: links lead to nodes that are there and up to
//! the root, offsets lie within segments, marks are in order. What a mark has *heard* is a sum over the answers above it, so it is made anew.

use crate::answer::StreamEnd;
use crate::position::{Pos, Segment};
use crate::tree::{Heard, Tree};

/// Channels that all marks of a tree may have heard of, added up: beyond any conversation that was held.
const MOST_HEARD: usize = 1 << 22;
/// The highest error number.
const MOST_ERRNO: i32 = 4095;

impl Tree {
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn make_sound(&mut self) -> Result<(), String> {
        self.check_links()?;
        if self
            .refused
            .is_some_and(|errno| !(1..=MOST_ERRNO).contains(&errno))
        {
            return Err("a connection was refused with no error".to_owned());
        }
        let mut heard_in_all = 0;
        for id in 0..self.nodes.len() {
            heard_in_all += self.sum_up(id, heard_in_all)?;
        }
        Ok(())
    }

    fn check_links(&self) -> Result<(), String> {
        let wrong = |id: usize, what: &str| Err(format!("node {id} of a tree {what}"));
        let Some(root) = self.nodes.first() else {
            return Err("a tree has no root".to_owned());
        };
        if root.parent.is_some() || root.segment != Segment::Bytes(Vec::new()) {
            return wrong(0, "is no root");
        }
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (id, node) in self.nodes.iter().enumerate() {
            if let Segment::Bytes(bytes) = &node.segment
                && (u32::try_from(bytes.len()).is_err() || (id > 0 && bytes.is_empty()))
            {
                return wrong(id, "has no proper content");
            }
            if !node.marks.is_sorted() || node.marks.keys().any(|offset| offset > node.segment_len()) {
                return wrong(id, "has answers where nothing was said");
            }
            if !node.marks.values().all(|mark| mark.answer.is_sorted()) {
                return wrong(id, "has an answer that is out of order");
            }
            if id == 0 {
                continue;
            }
            // Every node is younger than the one that it hangs on: so there is no circle.
            let Some(Pos { node: parent, offset }) = node.parent.filter(|parent| (parent.node as usize) < id)
            else {
                return wrong(id, "hangs on nothing");
            };
            let above = &self.nodes[parent as usize];
            let is_inside = offset <= above.segment_len() && (offset > 0 || parent == 0);
            if !is_inside || node.marks.keys().any(|offset| offset == 0) {
                return wrong(id, "hangs beside its parent");
            }
            children[parent as usize].push((offset, id as u32));
        }
        match self
            .nodes
            .iter()
            .zip(&children)
            .position(|(node, own)| node.children != *own)
        {
            Some(id) => wrong(id, "has other children than hang on it"),
            None => Ok(()),
        }
    }

    /// Sums up what was heard at the marks of a node, whose parents are done; how much there is of it.
    fn sum_up(&mut self, id: usize, before: usize) -> Result<usize, String> {
        let offsets: Vec<u32> = self.nodes[id].marks.keys().collect();
        let mut size = 0;
        for offset in offsets {
            let pos = Pos {
                node: id as u32,
                offset,
            };
            let above = self.mark_above(pos);
            let (mut heard, exit) = above
                .map(|(_, mark)| (mark.heard.clone(), mark.exit))
                .unwrap_or_default();
            let Some(mark) = self.nodes[id].marks.get_mut(offset) else {
                continue;
            };
            for (channel, speech) in mark.answer.speeches() {
                let index = usize::from(channel);
                if heard.len() <= index {
                    heard.resize(index + 1, Heard::default());
                }
                let sum = &mut heard[index];
                sum.units += speech.units();
                sum.opened |= speech.opened.is_some();
                if speech.end != StreamEnd::Open {
                    sum.end = speech.end;
                }
            }
            size += heard.len();
            if before + size > MOST_HEARD {
                return Err("a tree has more channels than any conversation".to_owned());
            }
            mark.exit = exit.or(mark.answer.exit);
            mark.heard = heard;
        }
        Ok(size)
    }
}
