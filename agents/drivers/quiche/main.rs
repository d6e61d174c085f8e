//! Transfers one file with quiche. With send and receive, the sender is the client and sends it on one stream, the receiver
//! is the server and closes the connection when it has the file. With serve and fetch, the sender is a server of HTTP/3
//! (RFC 9114) for one client, which fetches the file. quiche has no flow control windows and no idle timeout of its own; an
//! option for them that is not given has the value of quiche's own client and server, any other that of the library.
//! Packets leave at the times that quiche's pacing states.

#[path = "../options.rs"]
mod options;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use options::{run, Failure, Options};
use quiche::h3::{self, Header, NameValue};
use quiche::{Config, Connection, ConnectionId, RecvInfo};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

const USAGE: &str = "\
owlt-quiche receive --output FILE --local ADDRESS:PORT --key FILE --certificate FILE [OPTION VALUE]...
owlt-quiche send --file FILE --local ADDRESS:PORT --peer ADDRESS:PORT [OPTION VALUE]...
owlt-quiche serve --file FILE --local ADDRESS:PORT --key FILE --certificate FILE [OPTION VALUE]...
owlt-quiche fetch --name NAME --output FILE --local ADDRESS:PORT --peer ADDRESS:PORT [OPTION VALUE]...
options: --initial-rtt-ms --max-idle-timeout-ms (0: none) --keep-alive-ms --max-ack-delay-ms --ack-delay-exponent
  --relaxed-loss-threshold (on, off) --connection-window-bytes --stream-window-bytes --mtu-discovery (on, off)
  --datagram-bytes --congestion-control (cubic, reno, bbr2) --initial-window-packets --hystart (on, off)
  --pacing (on, off) --amplification-factor";
const STREAM: u64 = 2;
const SENDER_ID: &[u8] = b"owlt sender";
const RECEIVER_ID: &[u8] = b"owlt receiver";
const HTTP_STREAMS: u64 = 16;
const HTTP_DONE: u64 = 0x100; // H3_NO_ERROR (RFC 9114, section 8.1)

fn config(options: &Options) -> Result<Config, Failure> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"owlt"])?;
    config.set_initial_max_streams_uni(1);
    let connection_window = options.value("--connection-window-bytes")?;
    let stream_window = options.value("--stream-window-bytes")?;
    config.set_initial_max_data(connection_window.unwrap_or(10_000_000));
    config.set_initial_max_stream_data_uni(stream_window.unwrap_or(1_000_000));
    config.set_max_connection_window(connection_window.unwrap_or(25_165_824));
    config.set_max_stream_window(stream_window.unwrap_or(16_777_216));
    config.set_max_idle_timeout(options.value("--max-idle-timeout-ms")?.unwrap_or(30_000));
    if let Some(rtt) = options.duration_ms("--initial-rtt-ms")? {
        config.set_initial_rtt(rtt);
    }
    if let Some(ms) = options.value("--max-ack-delay-ms")? {
        config.set_max_ack_delay(ms);
    }
    if let Some(exponent) = options.value("--ack-delay-exponent")? {
        config.set_ack_delay_exponent(exponent);
    }
    if let Some(relaxed) = options.is_on("--relaxed-loss-threshold")? {
        config.set_enable_relaxed_loss_threshold(relaxed);
    }
    if let Some(discover) = options.is_on("--mtu-discovery")? {
        config.discover_pmtu(discover);
    }
    if let Some(bytes) = options.value("--datagram-bytes")? {
        config.set_max_send_udp_payload_size(bytes);
    }
    if let Some(name) = options.value::<String>("--congestion-control")? {
        config.set_cc_algorithm_name(&name)?;
    }
    if let Some(packets) = options.value("--initial-window-packets")? {
        config.set_initial_congestion_window_packets(packets);
    }
    if let Some(on) = options.is_on("--hystart")? {
        config.enable_hystart(on);
    }
    if let Some(on) = options.is_on("--pacing")? {
        config.enable_pacing(on);
    }
    if let Some(factor) = options.value("--amplification-factor")? {
        config.set_max_amplification_factor(factor);
    }
    Ok(config)
}

/// A connection with its socket: reads, waits and writes until the connection is closed.
struct Link {
    socket: UdpSocket,
    local: SocketAddr,
    connection: Connection,
    keep_alive: Option<Duration>,
    paced: Option<(Vec<u8>, Instant)>,
    peer: SocketAddr,
}

impl Link {
    fn new(socket: UdpSocket, connection: Connection, peer: SocketAddr, options: &Options) -> Result<Self, Failure> {
        let local = socket.local_addr()?;
        let keep_alive = options.duration_ms("--keep-alive-ms")?;
        Ok(Self { socket, local, connection, keep_alive, paced: None, peer })
    }

    /// Call `work` after every event until the connection is closed.
    fn run(&mut self, mut work: impl FnMut(&mut Connection) -> Result<(), Failure>) -> Result<(), Failure> {
        if let Ok(secrets) = std::env::var("SSLKEYLOGFILE") {
            self.connection.set_keylog(Box::new(File::create(secrets)?));
        }
        loop {
            work(&mut self.connection)?;
            self.write()?;
            if self.connection.is_closed() {
                return Ok(());
            }
            self.wait()?;
            self.read()?;
        }
    }

    /// Send what is due now. A packet whose time has not come waits.
    fn write(&mut self) -> Result<(), Failure> {
        loop {
            if self.paced.is_none() {
                let mut packet = vec![0; 65535];
                match self.connection.send(&mut packet) {
                    Ok((length, info)) => {
                        packet.truncate(length);
                        self.paced = Some((packet, info.at));
                    }
                    Err(quiche::Error::Done) => return Ok(()),
                    Err(problem) => return Err(problem.into()),
                }
            }
            match self.paced.take() {
                Some((packet, at)) if at <= Instant::now() => self.socket.send_to(&packet, self.peer)?,
                waiting => {
                    self.paced = waiting;
                    return Ok(());
                }
            };
        }
    }

    /// Wait for a packet, for the time of the one that waits, or for quiche's next timer.
    fn wait(&mut self) -> Result<(), Failure> {
        let due = self.paced.as_ref().map(|(_, at)| at.saturating_duration_since(Instant::now()));
        let timer = self.connection.timeout();
        let limit = [due, timer, self.keep_alive].into_iter().flatten().min();
        let timeout = limit.map(Timespec::try_from).transpose()?;
        let mut events = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut events, timeout.as_ref())? > 0 {
            return Ok(());
        }
        if timer.is_some() && timer == limit {
            self.connection.on_timeout();
        } else if self.keep_alive.is_some() && self.keep_alive == limit && self.connection.is_established() {
            self.connection.send_ack_eliciting()?;
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), Failure> {
        let mut packet = [0; 65535];
        self.socket.set_nonblocking(true)?;
        while let Ok((length, from)) = self.socket.recv_from(&mut packet) {
            // A packet that quiche does not accept changes nothing; what it makes of others ends in the connection.
            let _ = self.connection.recv(&mut packet[..length], RecvInfo { from, to: self.local });
        }
        self.socket.set_nonblocking(false)?;
        Ok(())
    }
}

/// Wait for the first packet of a client.
fn accepted(mut config: Config, options: &Options) -> Result<Link, Failure> {
    config.load_cert_chain_from_pem_file(&options.required::<String>("--certificate")?)?;
    config.load_priv_key_from_pem_file(&options.required::<String>("--key")?)?;
    config.log_keys();
    let socket = UdpSocket::bind(options.required::<SocketAddr>("--local")?)?;
    println!("listening on {}", socket.local_addr()?);

    let peer = socket.peek_from(&mut [0; 1])?.1;
    let id = ConnectionId::from_ref(RECEIVER_ID);
    let connection = quiche::accept(&id, None, socket.local_addr()?, peer, &mut config)?;
    let mut link = Link::new(socket, connection, peer, options)?;
    link.read()?;
    Ok(link)
}

fn connected(mut config: Config, options: &Options) -> Result<Link, Failure> {
    config.verify_peer(false);
    let socket = UdpSocket::bind(options.required::<SocketAddr>("--local")?)?;
    let peer = options.required("--peer")?;
    let id = ConnectionId::from_ref(SENDER_ID);
    let connection = quiche::connect(Some("owlt"), &id, socket.local_addr()?, peer, &mut config)?;
    Link::new(socket, connection, peer, options)
}

fn receive(options: &Options) -> Result<(), Failure> {
    let mut output = File::create(options.required::<String>("--output")?)?;
    let mut link = accepted(config(options)?, options)?;
    let mut received = 0;
    let mut complete = false;
    link.run(|connection| {
        let mut data = [0; 65535];
        while let Ok((length, last)) = connection.stream_recv(STREAM, &mut data) {
            output.write_all(&data[..length])?;
            received += length;
            if last {
                complete = true;
                println!("received {received} bytes");
                connection.close(true, 0, b"received")?;
            }
        }
        Ok(())
    })?;
    ended(&link.connection, complete)
}

fn send(options: &Options) -> Result<(), Failure> {
    let data = fs::read(options.required::<String>("--file")?)?;
    let mut link = connected(config(options)?, options)?;
    let mut sent = 0;
    let mut finished = false;
    link.run(|connection| {
        while connection.is_established() && !finished {
            match connection.stream_send(STREAM, &data[sent..], true) {
                Ok(length) => sent += length,
                Err(quiche::Error::Done) => break,
                Err(problem) => return Err(problem.into()),
            }
            finished = sent == data.len();
        }
        Ok(())
    })?;
    let complete = link.connection.peer_error().is_some_and(|error| error.is_app && error.error_code == 0);
    ended(&link.connection, complete)
}

fn http_config(options: &Options) -> Result<Config, Failure> {
    let mut config = config(options)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_initial_max_streams_bidi(HTTP_STREAMS);
    config.set_initial_max_streams_uni(HTTP_STREAMS);
    let stream_window = options.value("--stream-window-bytes")?.unwrap_or(1_000_000);
    config.set_initial_max_stream_data_bidi_local(stream_window);
    config.set_initial_max_stream_data_bidi_remote(stream_window);
    Ok(config)
}

/// The next event of HTTP/3; None: nothing has come.
fn next_event(http: &mut h3::Connection, connection: &mut Connection) -> Result<Option<(u64, h3::Event)>, Failure> {
    match http.poll(connection) {
        Ok(event) => Ok(Some(event)),
        Err(h3::Error::Done) => Ok(None),
        Err(problem) => Err(problem.into()),
    }
}

fn serve(options: &Options) -> Result<(), Failure> {
    let data = fs::read(options.required::<String>("--file")?)?;
    let mut link = accepted(http_config(options)?, options)?;
    let settings = h3::Config::new()?;
    let mut http = None;
    let mut sent: HashMap<u64, usize> = HashMap::new();
    link.run(|connection| {
        if http.is_none() && connection.is_established() {
            http = Some(h3::Connection::with_transport(connection, &settings)?);
        }
        let Some(http) = http.as_mut() else { return Ok(()) };
        while let Some((stream, event)) = next_event(http, connection)? {
            if let h3::Event::Headers { .. } = event {
                let length = data.len().to_string();
                let fields = [Header::new(b":status", b"200"), Header::new(b"content-length", length.as_bytes())];
                http.send_response(connection, stream, &fields, false)?;
                sent.insert(stream, 0);
            }
        }
        for (stream, offset) in sent.iter_mut() {
            while *offset < data.len() {
                match http.send_body(connection, *stream, &data[*offset..], true) {
                    Ok(length) => *offset += length,
                    Err(h3::Error::Done) => break,
                    Err(problem) => return Err(problem.into()),
                }
            }
        }
        Ok(())
    })?;
    let complete = sent.values().any(|offset| *offset == data.len());
    ended(&link.connection, complete && link.connection.peer_error().is_some())
}

fn fetch(options: &Options) -> Result<(), Failure> {
    let mut output = File::create(options.required::<String>("--output")?)?;
    let path = format!("/{}", options.required::<String>("--name")?);
    let mut link = connected(http_config(options)?, options)?;
    let settings = h3::Config::new()?;
    let mut http = None;
    let mut status = Vec::new();
    let mut complete = false;
    link.run(|connection| {
        if http.is_none() && connection.is_established() {
            let mut new = h3::Connection::with_transport(connection, &settings)?;
            let fields: [(&[u8], &[u8]); 4] =
                [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"owlt"), (b":path", path.as_bytes())];
            new.send_request(connection, &fields.map(|(name, value)| Header::new(name, value)), true)?;
            http = Some(new);
        }
        let Some(http) = http.as_mut() else { return Ok(()) };
        while let Some((stream, event)) = next_event(http, connection)? {
            match event {
                h3::Event::Headers { list, .. } => {
                    status =
                        list.iter().find(|each| each.name() == b":status").map_or(vec![], |each| each.value().to_vec());
                }
                h3::Event::Data => {
                    let mut data = [0; 65535];
                    while let Ok(length) = http.recv_body(connection, stream, &mut data) {
                        output.write_all(&data[..length])?;
                    }
                }
                h3::Event::Finished => {
                    complete = status == b"200";
                    connection.close(true, HTTP_DONE, b"received")?;
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    ended(&link.connection, complete)
}

/// How the connection ended, if not as it should.
fn ended(connection: &Connection, complete: bool) -> Result<(), Failure> {
    match (connection.peer_error(), connection.local_error()) {
        _ if complete => Ok(()),
        _ if connection.is_timed_out() => Err("the connection timed out".into()),
        (Some(error), _) => Err(format!("closed by the peer: {error:?}").into()),
        (_, error) => Err(format!("closed: {error:?}").into()),
    }
}

fn main() {
    run("quiche", env!("CARGO_PKG_VERSION"), |arguments| {
        let options = Options::parse(arguments, USAGE);
        match arguments.first().map(String::as_str) {
            Some("receive") => receive(&options?),
            Some("send") => send(&options?),
            Some("serve") => serve(&options?),
            Some("fetch") => fetch(&options?),
            _ => Err(USAGE.into()),
        }
    });
}
