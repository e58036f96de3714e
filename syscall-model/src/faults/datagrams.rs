//! Datagrams that get lost, arrive twice or overtake others. All of it is decided where the program sends: what happens to the datagram itself, and what
//! happens to the answer that it elicits.

use super::Fault;
use crate::call::Call;
use crate::channels::{ChannelId, Channels};
use crate::effect::Outcome;
use crate::model::{Cx, Model};
use crate::net::{Accepted, Arrival, Caller, Endpoint, Key, Network};
use syscalls::Errno;

/// Sends, with this fault.
pub fn execute(cx: &mut Cx, call: &Call, fault: Fault) -> Outcome {
    let before = Waiting::of(&cx.model.channels);
    let copies = match fault {
        Fault::Lost => 0,
        Fault::Duplicated => 2,
        _ => 1,
    };
    let outcome = Cx {
        model: cx.model,
        mem: cx.mem,
        host: cx.host,
        net: &mut Unreliable {
            inner: cx.net,
            copies,
        },
        tid: cx.tid,
        wake: cx.wake,
    }
    .execute(call);
    before.change_what_came(cx.model, call, fault);
    outcome
}

/// How many datagrams waited at each socket.
struct Waiting(Vec<(ChannelId, usize)>);

impl Waiting {
    fn of(channels: &Channels) -> Self {
        let sockets = channels.sockets.iter();
        Self(sockets.map(|(&id, socket)| (id, socket.waiting())).collect())
    }

    /// What has come since then is what was sent to a socket of the program itself, or an answer.
    fn change_what_came(&self, model: &mut Model, call: &Call, fault: Fault) {
        let sender = model
            .files
            .lookup(call.fd(0))
            .ok()
            .map(|(_, found)| found.kind.clone());
        for &(id, before) in &self.0 {
            let is_sender = sender == Some(crate::fd::Kind::Socket(id));
            let Some(socket) = model.channels.sockets.get_mut(&id) else {
                continue;
            };
            let came = socket.waiting().saturating_sub(before);
            match fault {
                // What another program was not told needs no taking back.
                Fault::Lost if !is_sender => socket.lose_newest(came),
                Fault::Duplicated if !is_sender => socket.repeat_newest(came),
                Fault::AnswerLost if is_sender => socket.lose_newest(came),
                Fault::AnswerDuplicated if is_sender => socket.repeat_newest(came),
                Fault::Overtaking => socket.advance_newest(came),
                _ => {}
            }
        }
    }
}

/// A network that carries each datagram so many times.
struct Unreliable<'n> {
    inner: &'n mut dyn Network,
    copies: u32,
}

impl Network for Unreliable<'_> {
    fn connect(&mut self, to: &Endpoint) -> Result<Key, Errno> {
        self.inner.connect(to)
    }

    fn bind(&mut self, at: &Endpoint, v6_only: bool) -> Result<Endpoint, Errno> {
        self.inner.bind(at, v6_only)
    }

    fn listen(&mut self, at: &Endpoint) -> bool {
        self.inner.listen(at)
    }

    fn acceptable(&mut self, at: &Endpoint) -> bool {
        self.inner.acceptable(at)
    }

    fn accept(&mut self, at: &Endpoint) -> Option<Accepted> {
        self.inner.accept(at)
    }

    fn callers(&mut self, at: &Endpoint) -> Vec<Caller> {
        self.inner.callers(at)
    }

    fn accept_from(&mut self, at: &Endpoint, client: u32) -> Option<Accepted> {
        self.inner.accept_from(at, client)
    }

    fn go_on_from(&mut self, with: &Key, at: &Endpoint) -> Option<Accepted> {
        self.inner.go_on_from(with, at)
    }

    fn write(&mut self, key: &Key, data: &[u8]) {
        for _ in 0..self.copies {
            self.inner.write(key, data);
        }
    }

    fn finish(&mut self, key: &Key) {
        self.inner.finish(key);
    }

    fn close(&mut self, key: &Key) {
        self.inner.close(key);
    }

    fn reset(&mut self, key: &Key) {
        self.inner.reset(key);
    }

    fn beyond_the_end(&mut self, key: &Key) -> Arrival {
        self.inner.beyond_the_end(key)
    }

    fn read(&mut self, key: &Key, max: usize) -> Arrival {
        self.inner.read(key, max)
    }

    fn unread(&mut self, key: &Key) -> usize {
        self.inner.unread(key)
    }

    fn settled(&mut self, is_silence: bool) {
        self.inner.settled(is_silence);
    }
}
