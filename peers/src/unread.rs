//! What peers leave unread, so that a program that writes to one that does not read comes to a halt, as it would natively.
//!
//! A native writer is stopped when the buffers between it and the reader are full. How full they are depends on how fast both are, but once the peer
//! rests it does not: what it has read of all that it was told is then a fact about the conversation, as its answer is. So that is put down with the
//! answer, and is the same for every schedule, cache mode and replay. How much more the program may say is for the caller to decide.

use crate::answer::Channel;
use crate::error::PeerError;
use crate::state::{ConnKey, PeerState};
use crate::tree::{Cursor, Pos, Readable, Tree};
use crate::world::{PeerWorld, open_conn};

impl Tree {
    /// Puts down what the peer had left unread when its answer at `pos` was complete.
    pub fn leave_unread(&mut self, pos: Pos, unread: &[(Channel, u64)]) {
        if let Some(mark) = self.nodes[pos.node as usize].marks.get_mut(pos.offset) {
            mark.unread = unread.to_vec();
        }
    }

    /// What the peer has left unread on `channel` of all that it was told up to `pos`; `None` if that position was never polled.
    #[must_use]
    pub fn unread(&self, channel: Channel, pos: Pos) -> Option<u64> {
        let mark = self.node(pos).marks.get(pos.offset)?;
        let of_channel = mark.unread.iter().find(|(of, _)| *of == channel);
        Some(of_channel.map_or(0, |(_, bytes)| *bytes))
    }
}

impl PeerWorld {
    /// Bytes that the SUT has written to a stream and the peer, which rests, has not read. The peer is asked if need be.
    ///
    /// # Errors
    /// A peer failed, or offline the position was never polled.
    pub fn unread(&mut self, state: &PeerState, key: &ConnKey) -> Result<u64, PeerError> {
        let conn = open_conn(&state.0.conns, key)?;
        let (tree, channel) = (conn.tree.0, conn.channel);
        let w = state.place(&conn.instance);
        let is_reset = self.trees[tree].readable(channel, Cursor { r: u64::MAX, w }) == Readable::Reset;
        if conn.datagrams || conn.fin || is_reset {
            // Nothing more can be said that would have to wait.
            return Ok(0);
        }
        if let Some(unread) = self.trees[tree].unread(channel, w.pos) {
            return Ok(unread);
        }
        self.resolve(tree, w)?;
        Ok(self.trees[tree].unread(channel, w.pos).unwrap_or(0))
    }

    /// Has a peer that stands at `pos`, and that was thought to rest, read on? Then that is put down, as a late answer is.
    pub(crate) fn look_for_late_reading(&mut self, id: u64) {
        let Some(physical) = self.pool.physicals.get_mut(&id).filter(|p| !p.unread.is_empty()) else {
            return;
        };
        let unread = self.ground.unread(physical);
        if unread != physical.unread {
            self.trees[physical.tree].leave_unread(physical.at.pos, &unread);
            physical.unread = unread;
            self.counters.late_answers += 1;
        }
    }
}
