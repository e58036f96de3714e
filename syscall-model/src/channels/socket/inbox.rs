//! What has come in at a socket and waits to be received.

use super::{Received, Style};
use crate::channels::bytes::ByteQueue;
use crate::faults::Mishap;
use crate::fd::OfdId;
use crate::net::Endpoint;
use imbl::Vector;

/// What the kernel charges for a small message on top of its bytes.
const RECORD_OVERHEAD: usize = 768;

/// A record, or a run of stream bytes with the descriptors that came with its first byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Message {
    pub bytes: ByteQueue,
    pub rights: Vec<OfdId>,
    /// Who sent a datagram.
    from: Option<Endpoint>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Inbox {
    messages: Vector<Message>,
    /// What they count for in the sender's buffer.
    charged: usize,
}

/// What a message of this length counts for.
fn charge(style: Style, len: usize) -> usize {
    match style {
        Style::Stream => len,
        _ => len + RECORD_OVERHEAD,
    }
}

impl Inbox {
    pub fn charged(&self) -> usize {
        self.charged
    }

    /// How many messages wait.
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// How many bytes there are in all.
    pub fn len(&self) -> usize {
        self.messages.iter().map(|message| message.bytes.len()).sum()
    }

    /// How many bytes the next message has.
    pub fn next_len(&self) -> usize {
        self.messages.front().map_or(0, |message| message.bytes.len())
    }

    pub fn senders(&self) -> impl Iterator<Item = Option<&Endpoint>> {
        self.messages.iter().map(|message| message.from.as_ref())
    }

    pub fn deliver(&mut self, style: Style, data: &[u8], rights: Vec<OfdId>, from: Option<Endpoint>) {
        self.charged += charge(style, data.len());
        let merge = style == Style::Stream && rights.is_empty();
        if merge
            && let Some(last) = self.messages.back_mut()
            && last.rights.is_empty()
        {
            last.bytes.push(data);
            return;
        }
        let mut message = Message {
            rights,
            from,
            ..Message::default()
        };
        message.bytes.push(data);
        self.messages.push_back(message);
    }

    /// Bytes of a stream that were taken come back.
    pub fn put_back(&mut self, data: &[u8], rights: Vec<OfdId>) {
        let mut message = Message {
            rights,
            ..Message::default()
        };
        message.bytes.push(data);
        self.charged += data.len();
        self.messages.push_front(message);
    }

    /// A run of stream bytes, or one record.
    pub fn take(&mut self, style: Style, max: usize) -> Received {
        match style {
            Style::Stream => self.take_stream(max),
            _ => self.take_record(style, max),
        }
    }

    /// Takes stream bytes up to and including the first run that carries descriptors.
    fn take_stream(&mut self, max: usize) -> Received {
        let mut got = Received::default();
        while got.rights.is_empty()
            && got.data.len() < max
            && let Some(mut first) = self.messages.pop_front()
        {
            got.data.extend(first.bytes.take(max - got.data.len()));
            got.rights = std::mem::take(&mut first.rights);
            if !first.bytes.is_empty() {
                self.messages.push_front(first);
            }
        }
        self.charged -= got.data.len();
        got.full_len = got.data.len();
        got
    }

    fn take_record(&mut self, style: Style, max: usize) -> Received {
        let mut message = self.messages.pop_front().unwrap_or_default();
        let full_len = message.bytes.len();
        self.charged -= charge(style, full_len);
        Received {
            data: message.bytes.take(max),
            rights: message.rights,
            full_len,
            end: false,
            from: message.from,
        }
    }

    /// Everything, which nobody will receive.
    pub fn discard(&mut self) -> Vector<Message> {
        self.charged = 0;
        std::mem::take(&mut self.messages)
    }

    pub fn lose_newest(&mut self, style: Style, count: usize) {
        for message in self.messages.split_off(self.messages.len() - count) {
            self.charged -= charge(style, message.bytes.len());
        }
    }

    pub fn repeat_newest(&mut self, style: Style, count: usize) {
        let newest = self.messages.skip(self.messages.len() - count);
        for message in newest {
            self.charged += charge(style, message.bytes.len());
            self.messages.push_back(message);
        }
    }

    pub fn advance_newest(&mut self, count: usize) {
        let mut newest = self.messages.split_off(self.messages.len() - count);
        newest.append(std::mem::take(&mut self.messages));
        self.messages = newest;
    }

    pub fn mishap(&mut self, style: Style, place: usize, mishap: Mishap) {
        mishap.befall(&mut self.messages, place);
        let sizes = self.messages.iter().map(|message| message.bytes.len());
        self.charged = sizes.map(|size| charge(style, size)).sum();
    }
}
