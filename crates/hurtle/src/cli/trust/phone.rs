//! `hurtle trust --phone`: a page in the private network from which a phone installs the
//! authority's certificate. The connection is in clear, so page and terminal show the certificate's
//! fingerprint, and the user compares them with that of the phone.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use aws_lc_rs::digest::{SHA256, digest};
use http::{HeaderValue, StatusCode};
use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::Authority;
use crate::config::{Config, Listen, Mount, MountHandler, Site};
use crate::server::{Running, Server};

/// An address of documentation (RFC 5737): no packet is sent to it, but a route to it is that of
/// the private network.
const FAR_AWAY: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// Phones offer to install a certificate of this type.
const CERTIFICATE: HeaderValue = HeaderValue::from_static("application/x-x509-ca-cert");

const PAGE: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// The page's beginning and end.
const BEGIN: &str = "<!doctype html>
<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">
<meta name=\"color-scheme\" content=\"light dark\"><title>Certificate authority</title>
<style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:2rem auto;padding:0 1rem}
code{overflow-wrap:anywhere}a.install{display:inline-block;padding:.6rem 1.2rem;border:2px solid;
border-radius:.5rem;font-weight:600}</style></head><body>
<h1>Trust this network's certificates</h1>
<p>Install the authority of this private network once. Its certificate has no secret, and is for private names
only.</p>
";
const END: &str = "<h2>Android</h2>
<p>Open the downloaded file, or Settings, Security, Encryption and credentials, Install a certificate, CA
certificate.</p>
<h2>iPhone and iPad</h2>
<p>Install the profile: Settings, Profile Downloaded. Then turn it on: Settings, General, About, Certificate Trust
Settings.</p>
<h2>Before that</h2>
<p>Compare the fingerprint that the phone shows with the one in the terminal.</p>
</body></html>
";

/// A served page from which phones install the certificates of authorities.
pub struct PhonePage {
    /// Words for the terminal, with the page's URL as a QR code.
    pub text: String,
    running: Running,
}

impl PhonePage {
    /// Serves the page until a signal ends the process.
    ///
    /// # Errors
    /// The server has failed.
    pub fn wait(self) -> io::Result<()> {
        self.running.join()
    }
}

/// Serves the certificates of authorities at this address; `None`: at a free port of this machine's
/// address in its network.
///
/// # Errors
/// There is no such address, or a certificate cannot be read.
pub(super) fn serve(
    authorities: &[Authority],
    address: Option<SocketAddr>,
) -> io::Result<PhonePage> {
    let address = match address {
        Some(address) => address,
        None => SocketAddr::new(own_address()?, 0),
    };
    let mut mounts = Vec::new();
    let (mut page, mut text) = (BEGIN.to_owned(), String::new());
    for authority in authorities {
        let name = authority.file.file_stem().unwrap_or_default().to_string_lossy();
        let path = format!("/{name}.crt");
        let fingerprint = fingerprint(&authority.pem)
            .map_err(|why| io::Error::other(format!("{}: {why}", authority.file.display())))?;
        // Writing to a String cannot fail.
        let _ = write!(
            page,
            "<p><a class=\"install\" href=\"{path}\">Install {name}</a></p>\n\
             <p>SHA-256 fingerprint: <code>{fingerprint}</code></p>\n"
        );
        let _ = writeln!(text, "{name}: SHA-256 fingerprint {fingerprint}");
        mounts.push(fixed(&path, &String::from_utf8_lossy(&authority.pem), CERTIFICATE));
    }
    page += END;
    mounts.push(fixed("/", &page, PAGE));
    let site = Site { default: true, mounts, ..Site::new() };
    let config = Config { listen: vec![Listen::Tcp(address)], ..Config::new(vec![site]) };
    let server = Server::bind(config)?;
    let at = server.addresses().first().map(ToString::to_string).unwrap_or_default();
    let url = format!("http://{at}/");
    let text = format!(
        "{}\nOpen {url} on the phone, in the same network, and install the certificate.\n\n{text}\n\
         Compare the fingerprint with the one that the phone shows. Ctrl-C ends the page.",
        code(&url)?
    );
    Ok(PhonePage { text, running: server.start()? })
}

fn fixed(path: &str, body: &str, content_type: HeaderValue) -> Mount {
    let (status, body) = (StatusCode::OK, body.to_owned());
    Mount { exact: true, ..Mount::new(path, MountHandler::Fixed { status, body, content_type }) }
}

/// The QR code of a URL in characters: light blocks, as on a dark terminal. Cameras read the
/// inverse, too.
fn code(url: &str) -> io::Result<String> {
    let code = QrCode::with_error_correction_level(url, EcLevel::L).map_err(io::Error::other)?;
    let [dark, light] = [Dense1x2::Light, Dense1x2::Dark];
    Ok(code.render::<Dense1x2>().dark_color(dark).light_color(light).build())
}

/// This machine's address in its network.
fn own_address() -> io::Result<IpAddr> {
    let find = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect(FAR_AWAY)?;
        Ok(socket.local_addr()?.ip())
    };
    find().map_err(|e: io::Error| {
        let hint = "write this machine's address, as in --phone 192.168.1.5:8088";
        io::Error::new(e.kind(), format!("no network is found: {e}; {hint}"))
    })
}

/// The SHA-256 of a certificate in pairs of hexadecimal digits, as phones show it.
fn fingerprint(pem: &[u8]) -> Result<String, String> {
    let der = CertificateDer::from_pem_slice(pem).map_err(|e| e.to_string())?;
    let digest = digest(&SHA256, &der);
    let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(pairs.join(":"))
}
