//! Transfers one file with cfdp-rs in class 2: the library's source handler or its destination handler, over a UDP
//! socket. The library has no loop of its own; this one gives it PDUs and expired timers, and paces what it sends. SIGHUP
//! cancels the transaction; the library cannot suspend one.

#[allow(dead_code)] // other drivers have other kinds of options
#[path = "../options.rs"]
mod options;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::mem::zeroed;
use std::net::UdpSocket;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::AtomicU16;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use cfdp::dest::DestinationHandler;
use cfdp::filestore::{FilestoreError, NativeFilestore, VirtualFilestore};
use cfdp::lost_segments::LostSegmentsList;
use cfdp::request::PutRequestOwned;
use cfdp::source::{SourceHandler, TransactionStep};
use cfdp::time::Countdown;
use cfdp::user::{CfdpUser, FileSegmentRecvdParams, MetadataReceivedParams, TransactionFinishedParams};
use cfdp::{
    DummyFaultHook, GenericSendError, IndicationConfig, LocalEntityConfig, PduOwnedWithInfo, PduSender,
    RemoteEntityConfig, State, TimerContext, TimerCreator, TransactionId,
};
use options::{run, Failure, Options};
use spacepackets::cfdp::pdu::finished::DeliveryCode;
use spacepackets::cfdp::pdu::FileDirectiveType;
use spacepackets::cfdp::{ChecksumType, ConditionCode, PduType, TransmissionMode};
use spacepackets::util::{UnsignedByteField, UnsignedEnum};

const USAGE: &str = "\
owlt-cfdp-rs receive --file FILE --local ADDRESS:PORT --peer ADDRESS:PORT --sender-entity ID --receiver-entity ID
owlt-cfdp-rs send --file FILE --name NAME ... as above
options: --rate-bps (0: no pacing) --rtt-s --timer-margin-s --segment-bytes --ack-timer-s --ack-limit --nak-timer-s
  --nak-limit --nak (immediate, deferred) --checksum (modular, crc32, crc32c, null) --closure (on, off)
  --pdu-crc (on, off); a timer is auto for the round trip, the time of two PDUs and the margin";
const HEADER_BYTES: usize = 4 + 2 + 2 + 4; // of a File Data PDU, without its entity ids
const LARGEST_PDU_BYTES: usize = 2048; // the library's buffer
const LINGER_TIMERS: u32 = 4;
const SLACK: Duration = Duration::from_micros(200); // by which a thread wakes up late

/// The PDUs that the library has made, until their turn on the link.
#[derive(Clone, Default)]
struct Outgoing(Rc<RefCell<VecDeque<Vec<u8>>>>);

impl PduSender for Outgoing {
    fn send_pdu(&self, _: PduType, _: Option<FileDirectiveType>, pdu: &[u8]) -> Result<(), GenericSendError> {
        self.0.borrow_mut().push_back(pdu.to_vec());
        Ok(())
    }
}

/// When the timers of the library expire, so that the loop sleeps until then.
#[derive(Clone, Debug, Default)]
struct Clock(Rc<RefCell<BTreeMap<u64, Instant>>>);

impl Clock {
    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        self.0.borrow().values().filter(|expiry| **expiry > now).min().copied()
    }
}

#[derive(Debug)]
struct Timer {
    clock: Clock,
    number: u64,
    interval: Duration,
}

impl Countdown for Timer {
    fn has_expired(&self) -> bool {
        Instant::now() >= self.clock.0.borrow()[&self.number]
    }

    fn reset(&mut self) {
        self.clock.0.borrow_mut().insert(self.number, Instant::now() + self.interval);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.clock.0.borrow_mut().remove(&self.number);
    }
}

impl TimerCreator for Clock {
    type Countdown = Timer;

    fn create_countdown(&self, context: TimerContext) -> Timer {
        let interval = match context {
            TimerContext::NakActivity { expiry_time } | TimerContext::PositiveAck { expiry_time } => expiry_time,
            TimerContext::CheckLimit { .. } => unreachable!("a timer of class 1"),
        };
        let number = self.0.borrow().last_key_value().map_or(0, |(last, _)| last + 1);
        let mut timer = Timer { clock: self.clone(), number, interval };
        timer.reset();
        timer
    }
}

/// A filestore that is one file, whatever the Metadata PDU calls it.
struct OneFile(String, NativeFilestore);

impl VirtualFilestore for OneFile {
    fn create_file(&self, _: &str) -> Result<(), FilestoreError> {
        self.1.create_file(&self.0)
    }
    fn remove_file(&self, _: &str) -> Result<(), FilestoreError> {
        self.1.remove_file(&self.0)
    }
    fn truncate_file(&self, _: &str) -> Result<(), FilestoreError> {
        self.1.truncate_file(&self.0)
    }
    fn remove_dir(&self, _: &str, _: bool) -> Result<(), FilestoreError> {
        Err(FilestoreError::Permission)
    }
    fn create_dir(&self, _: &str) -> Result<(), FilestoreError> {
        Err(FilestoreError::Permission)
    }
    fn read_data(&self, _: &str, offset: u64, length: u64, data: &mut [u8]) -> Result<(), FilestoreError> {
        self.1.read_data(&self.0, offset, length, data)
    }
    fn write_data(&self, _: &str, offset: u64, data: &[u8]) -> Result<(), FilestoreError> {
        self.1.write_data(&self.0, offset, data)
    }
    fn filename_from_full_path(path: &str) -> Option<&str> {
        NativeFilestore::filename_from_full_path(path)
    }
    fn is_file(&self, _: &str) -> Result<bool, FilestoreError> {
        Ok(true)
    }
    fn exists(&self, _: &str) -> Result<bool, FilestoreError> {
        self.1.exists(&self.0)
    }
    fn file_name<'a>(&self, path: &'a str) -> Result<Option<&'a str>, FilestoreError> {
        self.1.file_name(path)
    }
    fn file_size(&self, _: &str) -> Result<u64, FilestoreError> {
        self.1.file_size(&self.0)
    }
    fn calculate_checksum(
        &self,
        _: &str,
        kind: ChecksumType,
        length: u64,
        buffer: &mut [u8],
    ) -> Result<u32, FilestoreError> {
        self.1.calculate_checksum(&self.0, kind, length, buffer)
    }
}

/// How the transaction ended, as the library says it last.
#[derive(Default)]
struct User(Option<TransactionFinishedParams>);

impl CfdpUser for User {
    fn transaction_finished_indication(&mut self, finished: &TransactionFinishedParams) {
        self.0 = Some(*finished);
    }
    fn transaction_indication(&mut self, _: &TransactionId) {}
    fn eof_sent_indication(&mut self, _: &TransactionId) {}
    fn metadata_recvd_indication(&mut self, _: &MetadataReceivedParams) {}
    fn file_segment_recvd_indication(&mut self, _: &FileSegmentRecvdParams) {}
    fn report_indication(&mut self, _: &TransactionId) {}
    fn suspended_indication(&mut self, _: &TransactionId, _: ConditionCode) {}
    fn resumed_indication(&mut self, _: &TransactionId, _: u64) {}
    fn fault_indication(&mut self, _: &TransactionId, _: ConditionCode, _: u64) {}
    fn abandoned_indication(&mut self, _: &TransactionId, _: ConditionCode, _: u64) {}
    fn eof_recvd_indication(&mut self, _: &TransactionId) {}
}

/// What ends the loop's sleep, besides its timers.
enum Event {
    Datagram(Vec<u8>),
    Cancel,
}

/// Send an event when SIGHUP comes. The threads that are started later leave the signal to this one, too.
fn watch_for_cancel(queue: Sender<Event>) {
    let hang_up = unsafe {
        let mut set = zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGHUP);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, null_mut());
        set
    };
    thread::spawn(move || {
        let mut number = 0;
        while unsafe { libc::sigwait(&hang_up, &mut number) } == 0 && queue.send(Event::Cancel).is_ok() {}
    });
}

/// The socket, its paced queue, and threads that wait for datagrams and for the user's request to cancel.
struct Link {
    socket: UdpSocket,
    arrived: Receiver<Event>,
    is_cancelled: bool,
    outgoing: Outgoing,
    clock: Clock,
    rate_bps: f64,
    frame_bytes: usize, // of Ethernet, IP and UDP, around a PDU
    free: Instant,      // when the last PDU has left the link
    sent: u64,
    received: u64,
}

impl Link {
    fn new(options: &Options) -> Result<Self, Failure> {
        let socket = UdpSocket::bind(options.required::<String>("--local")?)?;
        socket.connect(options.required::<String>("--peer")?)?;
        let (queue, arrived) = channel();
        watch_for_cancel(queue.clone());
        let reader = socket.try_clone()?;
        thread::spawn(move || {
            let mut buffer = [0; 65536];
            loop {
                if let Ok(length) = reader.recv(&mut buffer) {
                    if queue.send(Event::Datagram(buffer[..length].to_vec())).is_err() {
                        return;
                    }
                }
            }
        });
        let rate_bps = options.required("--rate-bps")?;
        let frame_bytes = 14 + 8 + if socket.local_addr()?.is_ipv6() { 40 } else { 20 };
        let (outgoing, clock) = (Outgoing::default(), Clock::default());
        Ok(Link {
            socket,
            arrived,
            is_cancelled: false,
            outgoing,
            clock,
            rate_bps,
            frame_bytes,
            free: Instant::now(),
            sent: 0,
            received: 0,
        })
    }

    fn time_of(&self, pdu_bytes: usize) -> Duration {
        let bits = 8.0 * (pdu_bytes + self.frame_bytes) as f64;
        Duration::from_secs_f64(if self.rate_bps > 0.0 { bits / self.rate_bps } else { 0.0 })
    }

    /// Send what the rate allows, then wait: for a datagram, a timer of the library, or the link if `has_data` or PDUs
    /// wait for it. Returns the PDU if one has arrived.
    fn next(&mut self, has_data: bool) -> Option<PduOwnedWithInfo> {
        let waits = self.send() || has_data;
        let until = self.clock.next().into_iter().chain(waits.then_some(self.free)).min();
        let wait = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let Event::Datagram(datagram) = self.arrived.recv_timeout(wait).ok()? else {
            self.is_cancelled = true;
            return None;
        };
        self.received += 1;
        PduOwnedWithInfo::new_from_raw_packet(&datagram).map_err(|problem| eprintln!("{problem}")).ok()
    }

    /// Returns whether PDUs are left.
    fn send(&mut self) -> bool {
        while self.free <= Instant::now() {
            let Some(pdu) = self.outgoing.0.borrow_mut().pop_front() else { return false };
            let _ = self.socket.send(&pdu); // a port that is closed already is no error of this side
            self.sent += 1;
            let now = Instant::now();
            self.free = if now > self.free + SLACK { now } else { self.free } + self.time_of(pdu.len());
        }
        !self.outgoing.0.borrow().is_empty()
    }

    /// Give a handler PDUs and time until its transaction has ended. `step` is told whether the user has requested to
    /// cancel; it returns the handler's state, and whether it has more file data to send.
    fn drive(&mut self, mut step: impl FnMut(Option<&PduOwnedWithInfo>, bool) -> (State, bool)) {
        let (mut has_begun, mut has_data) = (false, true);
        loop {
            let pdu = self.next(has_data);
            let (state, more) = step(pdu.as_ref(), self.is_cancelled);
            if has_begun && state != State::Busy {
                break;
            }
            (has_begun, has_data) = (state == State::Busy, more);
        }
        while self.send() {
            thread::sleep(self.free.saturating_duration_since(Instant::now()));
        }
    }
}

fn on(options: &Options, name: &str) -> Result<bool, Failure> {
    Ok(options.is_on(name)?.unwrap_or(false))
}

fn entity(options: &Options, name: &str) -> Result<UnsignedByteField, Failure> {
    let id: u64 = options.required(name)?;
    Ok(UnsignedByteField::new([1, 2, 4].into_iter().find(|bytes| id >> (8 * bytes) == 0).unwrap_or(8), id))
}

fn remote(options: &Options, link: &Link, id: UnsignedByteField) -> Result<RemoteEntityConfig, Failure> {
    let checksum = match options.value::<String>("--checksum")?.as_deref() {
        None | Some("crc32") => ChecksumType::Crc32,
        Some("crc32c") => ChecksumType::Crc32C,
        Some("modular") => ChecksumType::Modular,
        Some("null") => ChecksumType::NullChecksum,
        Some(other) => return Err(format!("--checksum: got {other}, expected modular, crc32, crc32c or null").into()),
    };
    let (closure, crc) = (on(options, "--closure")?, on(options, "--pdu-crc")?);
    let mode = TransmissionMode::Acknowledged;
    let mut config = RemoteEntityConfig::new_with_default_values(id, LARGEST_PDU_BYTES, closure, crc, mode, checksum);
    let segment_bytes = options.required("--segment-bytes")?;
    let margin_s: f64 = options.required::<f64>("--rtt-s")? + options.required::<f64>("--timer-margin-s")?;
    let answer = Duration::from_secs_f64(margin_s) + 2 * link.time_of(segment_bytes + HEADER_BYTES + 2 * id.size());
    let timer = |name| -> Result<Duration, Failure> {
        match options.required::<String>(name)?.as_str() {
            "auto" => Ok(answer),
            text => Ok(Duration::from_secs_f64(text.parse()?)),
        }
    };
    config.max_file_segment_len = Some(segment_bytes);
    config.positive_ack_timer_interval = timer("--ack-timer-s")?;
    config.nak_timer_interval = timer("--nak-timer-s")?;
    config.positive_ack_timer_expiration_limit = options.required("--ack-limit")?;
    config.nak_timer_expiration_limit = options.required("--nak-limit")?;
    config.immediate_nak_mode = options.value::<String>("--nak")?.as_deref() == Some("immediate");
    Ok(config)
}

fn work(arguments: &[String]) -> Result<(), Failure> {
    let options = Options::parse(arguments, USAGE)?;
    let (sender, receiver) = (entity(&options, "--sender-entity")?, entity(&options, "--receiver-entity")?);
    let mut link = Link::new(&options)?;
    let mut user = User::default();
    println!("listening");
    match arguments.first().map(String::as_str) {
        Some("send") => {
            let config = remote(&options, &link, receiver)?;
            send(&options, &mut link, &mut user, sender, config)?;
            thread::sleep(LINGER_TIMERS * config.positive_ack_timer_interval);
        }
        Some("receive") => {
            let config = remote(&options, &link, sender)?;
            receive(&options, &mut link, &mut user, receiver, config)?;
        }
        _ => return Err(USAGE.into()),
    }
    let User(end) = user;
    let outcome = end.map(|end| (end.condition_code, end.delivery_code, end.file_status));
    println!("{outcome:?} sent={} received={}", link.sent, link.received);
    match end {
        Some(TransactionFinishedParams {
            condition_code: ConditionCode::NoError,
            delivery_code: DeliveryCode::Complete,
            ..
        }) => Ok(()),
        _ if link.is_cancelled => Err("this side cancelled".into()),
        _ => Err("the library gave the transaction up".into()),
    }
}

fn send(
    options: &Options,
    link: &mut Link,
    user: &mut User,
    id: UnsignedByteField,
    config: RemoteEntityConfig,
) -> Result<(), Failure> {
    let local = LocalEntityConfig::new(id, IndicationConfig::default(), DummyFaultHook::default());
    let store = OneFile(options.required("--file")?, NativeFilestore::default());
    let (outgoing, clock) = (link.outgoing.clone(), link.clock.clone());
    let mut handler = SourceHandler::new(local, outgoing, store, config, clock, AtomicU16::new(1));
    let name: String = options.required("--name")?;
    let request = PutRequestOwned::new_regular_request(config.entity_id, &name, &name, None, None);
    handler.put_request(&request.map_err(|problem| format!("{problem:?}"))?)?;
    let (id, clock) = (handler.transaction_id().ok_or("no transaction")?, link.clock.clone());
    let (mut has_cancelled, mut patience) = (false, None);
    link.drive(|pdu, is_cancelled| {
        if is_cancelled && !has_cancelled {
            report(handler.cancel_request(user, &id));
            has_cancelled = true;
        }
        report(handler.state_machine(user, pdu));
        if has_cancelled && handler.step() == TransactionStep::WaitingForFinished {
            // the library waits for it without limit, and a receiver need not send it
            let expiry_time = LINGER_TIMERS * config.positive_ack_timer_interval;
            let timer =
                patience.get_or_insert_with(|| clock.create_countdown(TimerContext::PositiveAck { expiry_time }));
            if timer.has_expired() {
                return (State::Idle, false);
            }
        }
        (handler.state(), handler.step() == TransactionStep::SendingFileData)
    });
    Ok(())
}

fn receive(
    options: &Options,
    link: &mut Link,
    user: &mut User,
    id: UnsignedByteField,
    config: RemoteEntityConfig,
) -> Result<(), Failure> {
    let local = LocalEntityConfig::new(id, IndicationConfig::default(), DummyFaultHook::default());
    let store = OneFile(options.required("--file")?, NativeFilestore::default());
    let (outgoing, clock) = (link.outgoing.clone(), link.clock.clone());
    let mut handler = DestinationHandler::new(local, outgoing, store, config, clock, LostSegmentsList::default());
    let mut has_cancelled = false;
    link.drive(|pdu, is_cancelled| {
        if let (true, false, None, Some(id)) = (is_cancelled, has_cancelled, &user.0, handler.transaction_id()) {
            has_cancelled = handler.cancel_request(&id);
        }
        report(handler.state_machine(user, pdu));
        (handler.state(), false)
    });
    Ok(())
}

/// The library goes on after an error: so do its users.
fn report<T>(done: Result<T, impl std::fmt::Display>) {
    if let Err(problem) = done {
        eprintln!("{problem}");
    }
}

fn main() {
    run("cfdp-rs", env!("CARGO_PKG_VERSION"), work);
}
