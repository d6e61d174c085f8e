//! Transfers one file with quinn: the sender is the client and sends it on one stream, the receiver is the server and
//! closes the connection when it has the file. An option that is not given has quinn's own value. There is no
//! segmentation offload, so that captures show the datagrams of the link.

#[path = "../options.rs"]
mod options;

use std::any::Any;
use std::fs::{self, File};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use options::{run, Failure, Options};
use quinn::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{AckFrequencyConfig, ClientConfig, ConnectionError, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, KeyLogFile, SignatureScheme};

const USAGE: &str = "\
owlt-quinn receive --output FILE --local ADDRESS:PORT --key FILE --certificate FILE [OPTION VALUE]...
owlt-quinn send --file FILE --local ADDRESS:PORT --peer ADDRESS:PORT [OPTION VALUE]...
options: --initial-rtt-ms --max-idle-timeout-ms (0: none) --keep-alive-ms --packet-threshold --time-threshold
  --persistent-congestion-threshold --max-ack-delay-ms --ack-eliciting-threshold --connection-window-bytes
  --stream-window-bytes --send-window-bytes --mtu-discovery (on, off) --initial-datagram-bytes
  --congestion-control (cubic, newreno, bbr, fixed) --initial-window-bytes";

fn integer(options: &Options, name: &str) -> Result<Option<VarInt>, Failure> {
    Ok(options.value::<u64>(name)?.map(VarInt::from_u64).transpose()?)
}

fn transport(options: &Options) -> Result<Arc<TransportConfig>, Failure> {
    let mut config = TransportConfig::default();
    config.enable_segmentation_offload(false);
    if let Some(rtt) = options.duration_ms("--initial-rtt-ms")? {
        config.initial_rtt(rtt);
    }
    if let Some(timeout) = options.duration_ms("--max-idle-timeout-ms")? {
        config.max_idle_timeout(if timeout.is_zero() { None } else { Some(timeout.try_into()?) });
    }
    if let Some(interval) = options.duration_ms("--keep-alive-ms")? {
        config.keep_alive_interval(Some(interval));
    }
    if let Some(packets) = options.value("--packet-threshold")? {
        config.packet_threshold(packets);
    }
    if let Some(rtts) = options.value("--time-threshold")? {
        config.time_threshold(rtts);
    }
    if let Some(timeouts) = options.value("--persistent-congestion-threshold")? {
        config.persistent_congestion_threshold(timeouts);
    }
    if let Some(bytes) = integer(options, "--connection-window-bytes")? {
        config.receive_window(bytes);
    }
    if let Some(bytes) = integer(options, "--stream-window-bytes")? {
        config.stream_receive_window(bytes);
    }
    if let Some(bytes) = options.value("--send-window-bytes")? {
        config.send_window(bytes);
    }
    if let Some(bytes) = options.value("--initial-datagram-bytes")? {
        config.initial_mtu(bytes);
    }
    if options.is_on("--mtu-discovery")? == Some(false) {
        config.mtu_discovery_config(None);
    }
    let delay = options.duration_ms("--max-ack-delay-ms")?;
    let threshold = integer(options, "--ack-eliciting-threshold")?;
    if delay.is_some() || threshold.is_some() {
        let mut frequency = AckFrequencyConfig::default();
        frequency.max_ack_delay(delay);
        if let Some(packets) = threshold {
            frequency.ack_eliciting_threshold(packets);
        }
        config.ack_frequency_config(Some(frequency));
    }
    if let Some(controller) = congestion_control(options)? {
        config.congestion_controller_factory(controller);
    }
    Ok(Arc::new(config))
}

fn congestion_control(options: &Options) -> Result<Option<Arc<dyn ControllerFactory + Send + Sync>>, Failure> {
    let name: Option<String> = options.value("--congestion-control")?;
    let window = options.value("--initial-window-bytes")?;
    macro_rules! configured {
        ($kind:ty) => {{
            let mut config = <$kind>::default();
            if let Some(bytes) = window {
                config.initial_window(bytes);
            }
            Some(Arc::new(config))
        }};
    }
    Ok(match name.as_deref() {
        None if window.is_none() => None,
        None | Some("cubic") => configured!(CubicConfig),
        Some("newreno") => configured!(NewRenoConfig),
        Some("bbr") => configured!(BbrConfig),
        Some("fixed") => Some(Arc::new(FixedWindow(options.required("--initial-window-bytes")?))),
        Some(other) => {
            return Err(format!("--congestion-control: got {other}, expected cubic, newreno, bbr or fixed").into())
        }
    })
}

/// A congestion window of so many bytes, whatever is lost or late.
#[derive(Debug, Clone)]
struct FixedWindow(u64);

impl ControllerFactory for FixedWindow {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new((*self).clone())
    }
}

impl Controller for FixedWindow {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.0
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.0
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

async fn receive(options: Options) -> Result<(), Failure> {
    let chain = vec![CertificateDer::from_pem_file(options.required::<String>("--certificate")?)?];
    let key = PrivateKeyDer::from_pem_file(options.required::<String>("--key")?)?;
    let mut tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"owlt".to_vec()];
    tls.key_log = Arc::new(KeyLogFile::new());
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(&options)?);
    let endpoint = Endpoint::server(config, options.required("--local")?)?;
    println!("listening on {}", endpoint.local_addr()?);

    let connection = endpoint.accept().await.ok_or("the endpoint was closed")?.await?;
    let mut stream = connection.accept_uni().await?;
    let mut output = File::create(options.required::<String>("--output")?)?;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        output.write_all(&chunk.bytes)?;
    }
    println!("received {} bytes", output.metadata()?.len());
    connection.close(VarInt::from_u32(0), b"received");
    endpoint.wait_idle().await;
    Ok(())
}

async fn send(options: Options) -> Result<(), Failure> {
    let provider = Arc::new(ring::default_provider());
    let mut tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"owlt".to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(&options)?);
    let endpoint = Endpoint::client(options.required("--local")?)?;

    let data = fs::read(options.required::<String>("--file")?)?;
    let connection = endpoint.connect_with(config, options.required("--peer")?, "owlt")?.await?;
    println!("connected");
    let mut stream = connection.open_uni().await?;
    stream.write_all(&data).await?;
    stream.finish()?;
    match connection.closed().await {
        ConnectionError::ApplicationClosed(close) if close.error_code == VarInt::from_u32(0) => Ok(()),
        other => Err(other.into()),
    }
}

/// Accepts every certificate: there is no authority that both sides know.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn main() {
    run("quinn", env!("CARGO_PKG_VERSION"), |arguments| {
        let options = Options::parse(arguments, USAGE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match arguments.first().map(String::as_str) {
            Some("receive") => runtime.block_on(receive(options?)),
            Some("send") => runtime.block_on(send(options?)),
            _ => Err(USAGE.into()),
        }
    });
}
