//! What a tree has of what a peer said: what can be read at a cursor, and what has become of its connections by then.

use crate::answer::{BY_IPV4, Channel, Speech, StreamEnd};
use crate::tree::{Cursor, Pos, Readable, Tree};

impl Tree {
    /// What the SUT can read on `channel` when it stands at `w` and has read `r` units.
    ///
    /// At a position that was never polled this is unknown even if earlier answers are still unread: how much can be read at once must depend on where the SUT stands, and not on where
    /// other schedules happened to poll. Only a stream that has ended needs no poll.
    #[must_use]
    pub fn readable(&self, channel: Channel, cursor: Cursor) -> Readable {
        let Some((pos, mark)) = self.last_mark(cursor.w.pos) else {
            return Readable::Unknown;
        };
        let heard = mark.heard.get(usize::from(channel)).copied().unwrap_or_default();
        if heard.end == StreamEnd::Open && pos != cursor.w.pos {
            return Readable::Unknown;
        }
        if heard.units > cursor.r {
            return Readable::Data(heard.units - cursor.r);
        }
        match heard.end {
            StreamEnd::Eof => Readable::Eof,
            StreamEnd::Reset => Readable::Reset,
            StreamEnd::Closed => Readable::Closed,
            StreamEnd::Open => Readable::Nothing,
        }
    }

    /// Calls `visit` on the speeches of `channel` that hold units `r..end`, first to last, with the number of their first unit.
    fn visit_speech(&self, channel: Channel, cursor: Cursor, end: u64, mut visit: impl FnMut(u64, &Speech)) {
        // As a rule there is one, and the place for others is never asked for.
        let (mut first, mut others) = (None, Vec::new());
        let mut at = self.last_mark(cursor.w.pos);
        while let Some((pos, mark)) = at {
            let stop = mark.heard.get(usize::from(channel)).map_or(0, |h| h.units);
            if stop <= cursor.r {
                break;
            }
            let speech = mark.answer.speech(channel);
            let start = stop - speech.map_or(0, Speech::units);
            if let Some(speech) = speech.filter(|_| start < end) {
                others.extend(first.replace((start, speech)));
            }
            if start <= cursor.r {
                break;
            }
            at = self.mark_above(pos);
        }
        for (start, speech) in first.into_iter().chain(others.into_iter().rev()) {
            visit(start, speech);
        }
    }

    /// Up to `max` bytes of what can be read; the cursor's `r` is the caller's to move (a peek does not).
    #[must_use]
    pub fn read(&self, channel: Channel, cursor: Cursor, max: usize) -> Vec<u8> {
        let end = cursor.r.saturating_add(max as u64);
        let mut data = Vec::new();
        self.visit_speech(channel, cursor, end, |start, speech| {
            let from = cursor.r.saturating_sub(start).min(speech.units()) as usize;
            let to = (end - start).min(speech.units()) as usize;
            data.extend_from_slice(speech.bytes.get(from..to).unwrap_or_default());
        });
        data
    }

    /// How many of the bytes that can be read from the cursor on the peer said before it paused; `None` if it said all of them in one go.
    #[must_use]
    pub fn until_pause(&self, channel: Channel, cursor: Cursor) -> Option<u64> {
        let mut first = None;
        self.visit_speech(channel, cursor, u64::MAX, |start, speech| {
            let pauses = speech
                .pauses
                .iter()
                .filter_map(|&pause| start.saturating_add(pause).checked_sub(cursor.r));
            first = first.or_else(|| pauses.filter(|&left| left > 0).min());
        });
        first
    }

    /// The next datagram that can be read.
    #[must_use]
    pub fn read_datagram(&self, channel: Channel, cursor: Cursor) -> Option<Vec<u8>> {
        let mut found = None;
        self.visit_speech(channel, cursor, cursor.r + 1, |start, speech| {
            if cursor.r >= start {
                found = speech.datagrams.get((cursor.r - start) as usize).cloned();
            }
        });
        found
    }

    /// How the peer has ended `channel` at `pos`, as far as is known.
    #[must_use]
    pub fn end(&self, channel: Channel, pos: Pos) -> StreamEnd {
        let mark = self.last_mark(pos).map(|(_, mark)| mark);
        let heard = mark.and_then(|mark| mark.heard.get(usize::from(channel)));
        heard.map_or(StreamEnd::Open, |heard| heard.end)
    }

    /// The channels that the peer has opened on the path to `pos`, with the listening address each one went to.
    #[must_use]
    pub fn opened(&self, pos: Pos) -> Vec<(Channel, String)> {
        let mut all = self.opened_as(pos);
        for (_, name) in &mut all {
            let plain = name.strip_suffix(BY_IPV4).map(str::len);
            name.truncate(plain.unwrap_or(name.len()));
        }
        all
    }

    /// Has the peer come by IPv4 to an address of IPv6?
    #[must_use]
    pub fn came_by_ipv4(&self, channel: Channel, pos: Pos) -> bool {
        let mut all = self.opened_as(pos).into_iter();
        all.any(|(opened, name)| opened == channel && name.ends_with(BY_IPV4))
    }

    fn opened_as(&self, pos: Pos) -> Vec<(Channel, String)> {
        let mut all = Vec::new();
        let mut at = self.last_mark(pos);
        while let Some((pos, mark)) = at {
            all.extend(
                mark.answer
                    .speeches()
                    .filter_map(|(channel, s)| Some((channel, s.opened.clone()?))),
            );
            at = self.mark_above(pos);
        }
        all.sort();
        all
    }

    /// All exit statuses that the process has had; a signal is negative.
    pub fn exits(&self) -> impl Iterator<Item = i32> + '_ {
        let marks = self.nodes.iter().flat_map(|node| node.marks.iter());
        marks.filter_map(|(_, mark)| mark.exit)
    }

    /// Whether the process has connected on any path.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        let mut marks = self.nodes.iter().flat_map(|node| node.marks.iter());
        marks.any(|(_, mark)| mark.answer.speeches().any(|(_, speech)| speech.opened.is_some()))
    }

    /// The exit status of the process, if it ended on the path to `pos`.
    #[must_use]
    pub fn exit(&self, pos: Pos) -> Option<i32> {
        self.last_mark(pos).and_then(|(_, mark)| mark.exit)
    }
}
