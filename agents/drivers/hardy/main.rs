//! Transfers one file as bundles between two nodes of hardy over TCPCL version 4. Bundle n goes to the endpoint
//! dtn://receiver/bundleN. The receiver listens and ends when it has all bundles; the sender runs until it is stopped.
//! An option that is not given has hardy's own value.

#[allow(dead_code)] // other drivers have other kinds of options
#[path = "../options.rs"]
mod options;

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hardy_bpa::bpa::{Bpa, BpaRegistration};
use hardy_bpa::filter::Hook;
use hardy_bpa::node_ids::NodeIds;
use hardy_bpa::services::{self, Application, ApplicationSink, StatusNotify};
use hardy_bpa::{async_trait, Bytes};
use hardy_bpv7::bundle::Id;
use hardy_bpv7::eid::{Eid, NodeId, Service};
use hardy_bpv7::status_report::ReasonCode;
use hardy_tcpclv4::{config::Config, Cla};
use options::{run, Failure, Options};
use time::OffsetDateTime;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};

const USAGE: &str = "\
owlt-hardy receive --output FILE --local ADDRESS:PORT --bundles NUMBER --bundle-bytes NUMBER [OPTION VALUE]...
owlt-hardy send --file FILE --peer ADDRESS:PORT --bundle-bytes NUMBER --lifetime-s NUMBER [OPTION VALUE]...
options: --segment-bytes --contact-timeout-s --keepalive-s (0: none) --rfc9171-filter (on, off)";

/// The application of one endpoint: it passes the payloads that arrive on, with the endpoint's number.
struct Endpoint {
    number: u64,
    sink: OnceLock<Box<dyn ApplicationSink>>,
    arrivals: UnboundedSender<(u64, Bytes)>,
}

#[async_trait]
impl Application for Endpoint {
    async fn on_register(&self, _: &Eid, sink: Box<dyn ApplicationSink>) {
        let _ = self.sink.set(sink);
    }

    async fn on_unregister(&self) {}

    async fn on_receive(&self, _: Eid, _: OffsetDateTime, _: bool, payload: Bytes) -> services::Result<()> {
        self.arrivals.send((self.number, payload)).map_err(|_| services::Error::Disconnected)
    }

    async fn on_status_notify(&self, _: &Id, _: &Eid, _: StatusNotify, _: ReasonCode, _: Option<OffsetDateTime>) {}
}

/// A node of this name with a TCP convergence layer that listens at `address`, or only connects.
async fn node(name: &str, address: Option<SocketAddr>, options: &Options) -> Result<(Bpa, Arc<Cla>), Failure> {
    let mut config = Config { address, ..Config::default() };
    if let Some(bytes) = options.value("--segment-bytes")? {
        config.segment_mru = bytes;
    }
    if let Some(seconds) = options.value("--contact-timeout-s")? {
        config.session_defaults.contact_timeout = seconds;
    }
    if let Some(seconds) = options.value("--keepalive-s")? {
        config.session_defaults.keepalive_interval = Some(seconds);
    }
    let id: NodeId = format!("dtn://{name}/").parse()?;
    let layer = Arc::new(Cla::new(&config)?);
    let builder = Bpa::builder().node_ids(NodeIds::try_from([id].as_slice())?);
    let agent = builder.cla("tcp", layer.clone(), None).build().await.map_err(|problem| problem.to_string())?;
    if options.is_on("--rfc9171-filter")? == Some(false) {
        agent.unregister_filter(Hook::Ingress, "rfc9171-validity")?;
    }
    agent.start(false);
    Ok((agent, layer))
}

async fn register(agent: &Bpa, name: &str, endpoint: Arc<Endpoint>) -> Result<(), Failure> {
    let Eid::Dtn { service_name, .. } = format!("dtn://node/{name}").parse()? else {
        return Err("not a dtn name".into());
    };
    agent.register_application(Service::Dtn(service_name), endpoint).await?;
    Ok(())
}

async fn receive(options: Options) -> Result<(), Failure> {
    let bundle_bytes: u64 = options.required("--bundle-bytes")?;
    let bundles: u64 = options.required("--bundles")?;
    let output = File::create(options.required::<String>("--output")?)?;
    let (agent, _layer) = node("receiver", Some(options.required("--local")?), &options).await?;
    let (arrivals, mut arriving) = unbounded_channel();
    for number in 0..bundles {
        let endpoint = Endpoint { number, sink: OnceLock::new(), arrivals: arrivals.clone() };
        register(&agent, &format!("bundle{number}"), Arc::new(endpoint)).await?;
    }
    for _ in 0..bundles {
        let (number, payload) = arriving.recv().await.ok_or("the node stopped")?;
        output.write_all_at(&payload, number * bundle_bytes)?;
    }
    println!("received {bundles} bundles");
    agent.shutdown().await;
    Ok(())
}

async fn send(options: Options) -> Result<(), Failure> {
    let bundle_bytes: usize = options.required("--bundle-bytes")?;
    let lifetime = Duration::from_secs(options.required("--lifetime-s")?);
    let data = Bytes::from(fs::read(options.required::<String>("--file")?)?);
    let (agent, layer) = node("sender", None, &options).await?;
    let (arrivals, mut arriving) = unbounded_channel();
    let endpoint = Arc::new(Endpoint { number: 0, sink: OnceLock::new(), arrivals });
    register(&agent, "file", endpoint.clone()).await?;
    layer.connect(&options.required("--peer")?).await?;
    println!("connected");
    let sink = endpoint.sink.get().ok_or("the node did not register its application")?;
    for (number, start) in (0..data.len()).step_by(bundle_bytes).enumerate() {
        let payload = data.slice(start..data.len().min(start + bundle_bytes));
        sink.send(format!("dtn://receiver/bundle{number}").parse()?, payload, lifetime, None).await?;
    }
    arriving.recv().await.ok_or("the node stopped")?;
    Ok(())
}

fn main() {
    run("hardy", env!("CARGO_PKG_VERSION"), |arguments| {
        let options = Options::parse(arguments, USAGE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match arguments.first().map(String::as_str) {
            Some("receive") => runtime.block_on(receive(options?)),
            Some("send") => runtime.block_on(send(options?)),
            _ => Err(USAGE.into()),
        }
    });
}
