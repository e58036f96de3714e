//! How the SUT ends its connections: it says no more, closes, or breaks off.

use crate::answer::StreamEnd;
use crate::error::PeerError;
use crate::state::{ConnKey, Instance, PeerState};
use crate::tree::Write;
use crate::world::PeerWorld;

impl PeerWorld {
    /// The SUT ends its side of a stream. Nobody is told until somebody looks for the effect: the peer's position is simply one that was not polled yet.
    ///
    /// # Errors
    /// There is no such connection, or in linear mode the recorded conversation goes on.
    pub fn fin(&mut self, state: &mut PeerState, key: &ConnKey) -> Result<(), PeerError> {
        if self.conn(state, key)?.fin {
            return Ok(());
        }
        self.tell_later(state, key, Write::Fin, b"<end>")
    }

    /// The SUT breaks a connection off, and with it what the peer still says. As with an end, nobody is told until somebody looks for the effect.
    ///
    /// # Errors
    /// There is no such connection, or in linear mode the recorded conversation goes on.
    pub fn reset(&mut self, state: &mut PeerState, key: &ConnKey) -> Result<(), PeerError> {
        let conn = self.conn(state, key)?;
        if conn.fin {
            // What it makes of the end comes first, or it would depend on how quick it is; and what it then says is not heard any more afterwards.
            self.resolve(conn.tree.0, state.place(&conn.instance))?;
        }
        let end = self.trees[conn.tree.0].end(conn.channel, state.place(&conn.instance).pos);
        // One that the peer has broken off is no more.
        if end != StreamEnd::Reset {
            self.tell_later(state, key, Write::Reset, b"<reset>")?;
        }
        self.forget(state, key);
        Ok(())
    }

    fn tell_later(
        &mut self,
        state: &mut PeerState,
        key: &ConnKey,
        write: Write<'_>,
        shown: &[u8],
    ) -> Result<(), PeerError> {
        let conn = self.conn(state, key)?;
        let (instance, channel, tree) = (conn.instance.clone(), conn.channel, conn.tree.0);
        let from = state.place(&instance);
        self.may_diverge(tree, self.trees[tree].walk(from, channel, write), shown)?;
        let to = self.trees[tree].insert(from, channel, write);
        let inner = state.edit();
        inner.places.insert(instance, to);
        inner.conns.change(key, |conn| conn.fin = true);
        Ok(())
    }

    /// The SUT closes a connection, with nothing unread. A server is not told (its connection may serve another schedule), unless its other connections may depend on it; a client is, because what it does next (another
    /// connection, its end) may depend on it: what it still says is refused.
    ///
    /// # Errors
    /// There is no such connection, or in linear mode the recorded conversation goes on.
    pub fn close(&mut self, state: &mut PeerState, key: &ConnKey) -> Result<(), PeerError> {
        let instance = state.0.conns.get(key).map(|conn| &conn.instance);
        let is_of_process = matches!(instance, Some(Instance::Process(_)));
        if is_of_process || matches!(key, ConnKey::Accepted(..)) {
            self.tell_of_close(state, key)?;
        }
        self.forget(state, key);
        Ok(())
    }

    fn tell_of_close(&mut self, state: &mut PeerState, key: &ConnKey) -> Result<(), PeerError> {
        let conn = self.conn(state, key)?;
        if conn.datagrams {
            return self.fin(state, key);
        }
        if conn.fin {
            // As with a reset: what it makes of the end comes first.
            self.resolve(conn.tree.0, state.place(&conn.instance))?;
            let end = self.trees[conn.tree.0].end(conn.channel, state.place(&conn.instance).pos);
            // Who says no more has nothing to be refused.
            if end != StreamEnd::Open {
                return Ok(());
            }
        }
        self.tell_later(state, key, Write::Close, b"<close>")
    }

    /// The SUT has no use for the connection any more: what was left unread does not matter.
    fn forget(&self, state: &mut PeerState, key: &ConnKey) {
        state
            .edit()
            .conns
            .change(key, |conn| (conn.closed, conn.r) = (true, 0));
    }

    /// What has come out about a stream that has ended: whether what the SUT still says on it reaches anybody. The peer is asked if need be.
    ///
    /// # Errors
    /// A peer failed, or offline the position was never polled.
    pub fn end(&mut self, state: &PeerState, key: &ConnKey) -> Result<StreamEnd, PeerError> {
        let conn = self.conn(state, key)?;
        let (tree, channel, at) = (conn.tree.0, conn.channel, state.place(&conn.instance));
        self.resolve(tree, at)?;
        Ok(self.trees[tree].end(channel, at.pos))
    }
}
