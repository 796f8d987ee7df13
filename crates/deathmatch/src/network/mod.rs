//! A network with loss and delay between the generator and a server. Each is in a network namespace
//! of its own with a TUN device; `relay` carries IP packets between the two devices. The server
//! listens on 127.0.0.1 as always. The generator's namespace has no loopback, so packets to that
//! address take the device.
//!
//! netem (tc-netem(8)) does the same in the kernel, but many kernels are built without it, and over
//! loopback it would lose trains of up to 64 KB as one packet.

mod namespace;
mod relay;

use std::fs;
use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio_tun::Tun;

pub use namespace::Entered;
use namespace::Namespace;
use relay::{Counts, relay};

use crate::load;
use crate::sample::{Network, NetworkUse};

/// Largest packet, as on Ethernet.
const MTU: u16 = 1500;

/// Packets that wait in a device: more than a burst has.
const QUEUE: &str = "10000";

/// The devices' names; each namespace has one.
const DEVICE: &str = "lossy0";

/// Addresses of the devices, of a network for benchmarks (RFC 2544, C.2.2). Servers see the first.
const CLIENT: &str = "198.18.0.1";
const SERVER: &str = "198.18.0.2";

/// TCP's congestion control of new connections, in the reader's namespace.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Settings of a namespace: addresses of 127.0.0.0/8 may leave and arrive through the device, and
/// connections know nothing of earlier ones (Linux, Documentation/networking/ip-sysctl.rst).
const SETTINGS: [(&str, &str); 5] = [
    ("conf/all/route_localnet", "1"),
    ("conf/lossy0/route_localnet", "1"),
    ("conf/all/rp_filter", "0"),
    ("conf/lossy0/rp_filter", "0"),
    ("tcp_no_metrics_save", "1"),
];

/// Turns IPv6 off for devices that are made later.
const NO_IPV6: &str = "/proc/sys/net/ipv6/conf/default/disable_ipv6";

/// A network between two namespaces. Dropping it ends it.
#[derive(Debug)]
pub struct LossyLink {
    network: Network,
    client: Arc<Namespace>,
    server: Arc<Namespace>,
    congestion: String,
    counts: Arc<Counts>,
    stop: Option<oneshot::Sender<()>>,
    relay: Option<JoinHandle<io::Result<()>>>,
}

/// Packets, lost packets and processor time so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkCounts {
    packets: u64,
    lost: u64,
    /// Processor time of the relay, in seconds.
    pub cpu_s: f64,
}

impl LossyLink {
    /// Makes both namespaces and begins to carry packets on this processor. The seed decides which
    /// are lost.
    ///
    /// # Errors
    /// This process is not root, or the kernel has no TUN devices.
    pub fn new(network: Network, seed: u64, core: usize) -> io::Result<LossyLink> {
        let (client, server) = (Arc::new(Namespace::new()?), Arc::new(Namespace::new()?));
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = oneshot::channel();
        let (ready, is_ready) = mpsc::channel();
        let (inside, counted) = ((client.clone(), server.clone()), counts.clone());
        let relay = thread::spawn(move || {
            let made = load::pin(core).and_then(|()| devices(&inside.0, &inside.1));
            let (runtime, one, other, congestion) = match made {
                Ok(made) => made,
                Err(e) => {
                    // The other end waits for it.
                    let _ = ready.send(Err(e));
                    return Ok(());
                }
            };
            let _ = ready.send(Ok(congestion));
            let until = async {
                // The sender is dropped.
                let _ = stopped.await;
            };
            runtime.block_on(relay([&one, &other], network, seed, &counted, until))
        });
        let congestion = is_ready.recv().map_err(|_| io::ErrorKind::BrokenPipe)??;
        let (stop, relay) = (Some(stop), Some(relay));
        Ok(LossyLink { network, client, server, congestion, counts, stop, relay })
    }

    /// Moves the calling thread to the generator's side.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter_client(&self) -> io::Result<Entered> {
        self.client.enter()
    }

    /// Moves the calling thread to the server's side.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enter_server(&self) -> io::Result<Entered> {
        self.server.enter()
    }

    /// Returns the counts since the network was made.
    pub fn counts(&self) -> LinkCounts {
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let Counts { packets, lost, cpu_ns } = &*self.counts;
        LinkCounts { packets: read(packets), lost: read(lost), cpu_s: read(cpu_ns) as f64 / 1e9 }
    }

    /// Its use since then.
    pub fn used_since(&self, then: LinkCounts) -> NetworkUse {
        let now = self.counts();
        NetworkUse {
            network: self.network,
            congestion: self.congestion.clone(),
            packets: now.packets - then.packets,
            lost: now.lost - then.lost,
        }
    }
}

impl Drop for LossyLink {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It ends at once; after an error of its own there is no packet left to carry.
        self.relay.take().map(JoinHandle::join);
    }
}

/// The devices of both sides, and TCP's congestion control at the server's.
fn devices(client: &Namespace, server: &Namespace) -> io::Result<(Runtime, Tun, Tun, String)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (one, other, congestion) = {
        let _reactor = runtime.enter();
        let inside = client.enter()?;
        let one = device(CLIENT)?;
        ip(&["route", "add", "127.0.0.0/8", "dev", DEVICE, "src", CLIENT])?;
        drop(inside);
        let inside = server.enter()?;
        let other = device(SERVER)?;
        ip(&["link", "set", "dev", "lo", "up"])?;
        ip(&["route", "add", &format!("{CLIENT}/32"), "dev", DEVICE])?;
        let congestion = fs::read_to_string(CONGESTION)?.trim().to_owned();
        drop(inside);
        (one, other, congestion)
    };
    Ok((runtime, one, other, congestion))
}

/// Makes the device of the namespace that the thread is in.
fn device(address: &str) -> io::Result<Tun> {
    // Its own packets would be relayed too. A kernel without IPv6 has no such setting.
    let _ = fs::write(NO_IPV6, "1");
    let made = Tun::builder().name(DEVICE).mtu(i32::from(MTU)).close_on_exec().build();
    let none = |e| io::Error::new(io::ErrorKind::Unsupported, format!("no TUN device: {e}"));
    let mut made = made.map_err(none)?;
    let tun = made.pop().ok_or_else(|| io::Error::other("no TUN device"))?;
    for (name, value) in SETTINGS {
        fs::write(format!("/proc/sys/net/ipv4/{name}"), value)?;
    }
    ip(&["address", "add", &format!("{address}/32"), "dev", DEVICE])?;
    ip(&["link", "set", "dev", DEVICE, "up", "txqueuelen", QUEUE])?;
    Ok(tun)
}

/// ip(8), in the thread's namespace.
fn ip(words: &[&str]) -> io::Result<()> {
    let output = Command::new("ip")
        .args(words)
        .output()
        .map_err(|e| io::Error::new(e.kind(), format!("ip: {e}; apt-get install iproute2")))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", words.join(" "), why.trim())))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::{Duration, Instant};

    use super::*;

    /// `None` where this process may not make one.
    fn link(loss: f64, delay_ms: u32) -> Option<LossyLink> {
        match LossyLink::new(Network { loss, delay_ms }, 1, 0) {
            Ok(link) => Some(link),
            Err(e) => {
                let reasons = [
                    io::ErrorKind::NotFound,
                    io::ErrorKind::PermissionDenied,
                    io::ErrorKind::Unsupported,
                ];
                assert!(reasons.contains(&e.kind()), "{e}");
                println!("skipped: {e}");
                None
            }
        }
    }

    #[test]
    fn a_server_on_loopback_is_reached_through_the_delay() {
        let Some(link) = link(0.0, 30) else { return };
        let inside = link.enter_server().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(inside);
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            socket.write_all(&byte).unwrap();
        });
        let inside = link.enter_client().unwrap();
        let begun = Instant::now();
        let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap();
        let connected = begun.elapsed();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.write_all(b"x").unwrap();
        socket.read_exact(&mut [0]).unwrap();
        let answered = begun.elapsed();
        drop(inside);
        server.join().unwrap();
        assert!(connected >= Duration::from_millis(60), "one round trip took {connected:?}");
        assert!(answered >= Duration::from_millis(120), "two round trips took {answered:?}");
        let used = link.used_since(LinkCounts::default());
        assert!(used.packets >= 5 && used.lost == 0, "{used:?}");
        assert!(!used.congestion.is_empty(), "{used:?}");
        assert!(TcpStream::connect(address).is_err(), "it listens in its namespace only");
    }

    #[test]
    fn the_seed_decides_which_packets_are_lost() {
        const SENT: u8 = 200;
        let Some(link) = link(0.25, 0) else { return };
        let mut random = crate::random::SplitMix(1);
        let kept: Vec<u8> = (0..SENT).filter(|_| random.unit() >= 0.25).collect();
        let inside = link.enter_server().unwrap();
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        there.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let address = there.local_addr().unwrap();
        drop(inside);
        let inside = link.enter_client().unwrap();
        let here = UdpSocket::bind("0.0.0.0:0").unwrap();
        (0..SENT).for_each(|number| assert_eq!(here.send_to(&[number], address).unwrap(), 1));
        drop(inside);
        let arrived: Vec<u8> = kept
            .iter()
            .map(|_| {
                let mut number = [0];
                there.recv(&mut number).unwrap();
                number[0]
            })
            .collect();
        assert_eq!(arrived, kept);
        assert!((100..=185).contains(&kept.len()), "{} of 200 arrived", kept.len());
    }
}
