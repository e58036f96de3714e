//! `accept` and `accept4`.

use super::sockets::{FLAGS, socket_of, status, write_address};
use crate::call::Call;
use crate::channels::io::{self, blocking};
use crate::channels::socket::{Socket, Style};
use crate::channels::{ChannelId, Use, install, named, touches};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::Kind;
use crate::model::Cx;
use crate::net::flight;
use crate::net::observe::Observation;
use crate::object::{Object, Touch};
use crate::wait::Wake;
use syscalls::{Errno, Sysno};

pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    let Ok((ofd, id)) = socket_of(cx, call.fd(0)) else {
        return Prepared::visible(vec![Touch::read(Object::FdTable)]);
    };
    let listens = cx
        .model
        .channels
        .sockets
        .get(&id)
        .is_some_and(Socket::is_listening);
    let deadline = io::socket_deadline(cx.model, ofd, true);
    let mut touched = touches(cx.model, ofd, Use::Read);
    touched.push(Touch::write(Object::FdTable));
    let waits = listens && blocking(cx.model, ofd) && flags(call) & !FLAGS == 0;
    let prepared = Prepared::visible(touched).waiting(waits.then(|| io::read_wait(ofd, deadline)));
    let prepared = prepared.until(deadline).awaiting_clients(listens);
    prepared.observing(Observation::Accept {
        socket: id,
        may_fail: !waits,
    })
}

fn flags(call: &Call) -> i32 {
    match call.sysno {
        Sysno::accept4 => call.int(3),
        _ => 0,
    }
}

pub fn accept(cx: &mut Cx, call: &Call) -> Outcome {
    cx.model.files.lookup(call.fd(0))?;
    let flags = flags(call);
    if flags & !FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    cx.model.files.lowest_free(0)?;
    let (ofd, listener) = socket_of(cx, call.fd(0))?;
    let socket = cx.model.channels.sockets.get(&listener).ok_or(Errno::EBADF)?;
    if socket.style == Style::Datagram {
        return Err(Errno::EOPNOTSUPP);
    }
    if !socket.is_listening() || socket.shut.read && !socket.is_inet() {
        return Err(Errno::EINVAL);
    }
    let Some(id) = take(cx, listener)? else {
        if blocking(cx.model, ofd) && cx.wake != Wake::TimedOut {
            return Ok(Effect::Block(io::read_wait(ofd, cx.thread().call.deadline)));
        }
        return Err(Errno::EAGAIN);
    };
    let close_on_exec = flags & libc::SOCK_CLOEXEC != 0;
    let fd = install(cx.model, Kind::Socket(id), status(flags), close_on_exec)?;
    if call.word(1) != 0 {
        let end = cx.model.channels.sockets.get(&id).ok_or(Errno::EBADF)?;
        let address = super::sockets::encoded(end.remote_name(), end.family);
        write_address(cx, &address, call.word(1), call.word(2))?;
    }
    Ok(Effect::Done(i64::from(fd)))
}

/// The next connection: the program's own first, they came before it looked.
fn take(cx: &mut Cx, listener: ChannelId) -> Result<Option<ChannelId>, Errno> {
    let socket = cx.model.channels.sockets.get_mut(&listener).ok_or(Errno::EBADF)?;
    let name = socket.name().cloned();
    let listening = socket.listening_mut().ok_or(Errno::EINVAL)?;
    if let Some(own) = listening.backlog.pop_front() {
        cx.model.accepts(own);
        return Ok(Some(own));
    }
    let client_waits = listening.client_waits;
    let Some(name) = name else {
        return Ok(None);
    };
    let accepted = if let Some(client) = flight::take_caller(cx.model, listener) {
        cx.net.accept_from(&name, client)
    } else if client_waits {
        cx.net.accept(&name)
    } else {
        None
    };
    Ok(accepted.map(|accepted| named::accepted(cx.model, listener, accepted)))
}
