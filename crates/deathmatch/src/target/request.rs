//! The request that is sent again and again.

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderName, HeaderValue, Method};

use super::Url;
use crate::load::{RequestFields, http3_request};
use crate::tls::Protocol;

/// A request, in parts that no protocol has encoded yet.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method; none of CONNECT.
    pub method: Method,
    /// Fields in their order, names in lower case.
    pub fields: Vec<(String, String)>,
    /// The content; empty: the request has none.
    pub body: Vec<u8>,
    /// `true` if the connection ends with its response.
    pub is_last: bool,
}

impl Request {
    /// A request of this method (`None`: GET, or POST with a body), with fields as in `Name:
    /// value`.
    ///
    /// # Errors
    /// The argument that cannot be used.
    pub fn new(
        method: Option<&str>,
        fields: &[String],
        body: Option<Vec<u8>>,
    ) -> Result<Request, String> {
        let method = method.unwrap_or(if body.is_some() { "POST" } else { "GET" });
        let parsed = Method::from_bytes(method.as_bytes()).ok().filter(|m| *m != Method::CONNECT);
        let method =
            parsed.ok_or_else(|| format!("-m {method}: write a method such as GET or POST"))?;
        let fields = fields.iter().map(|field| read_field(field)).collect::<Result<_, _>>()?;
        Ok(Request { method, fields, body: body.unwrap_or_default(), is_last: false })
    }

    /// Adds fields as in `Name: value`, unless it has one of the same name.
    ///
    /// # Errors
    /// The argument that cannot be used.
    pub fn add_fields(&mut self, fields: &[String]) -> Result<(), String> {
        let added: Vec<_> =
            fields.iter().map(|field| read_field(field)).collect::<Result<_, _>>()?;
        let is_new = |(name, _): &(String, String)| self.fields.iter().all(|(own, _)| own != name);
        let added: Vec<_> = added.into_iter().filter(is_new).collect();
        self.fields.extend(added);
        Ok(())
    }

    /// Makes it a call of gRPC with this message, which is not compressed (gRPC,
    /// `PROTOCOL-HTTP2.md`).
    ///
    /// # Errors
    /// The message has more than 4 GiB.
    pub fn make_grpc(&mut self, message: &[u8]) -> Result<(), String> {
        let length = u32::try_from(message.len()).map_err(|_| "the message is too long")?;
        self.method = Method::POST;
        self.body = [&[0], &length.to_be_bytes()[..], message].concat();
        self.add_missing(&[("content-type", "application/grpc"), ("te", "trailers")]);
        Ok(())
    }

    /// Makes it the upgrade of a connection to the WebSocket protocol (RFC 6455, 4.1). Its body is
    /// then the message.
    pub fn make_websocket(&mut self) {
        self.method = Method::GET;
        let mut key = [0; 16];
        // The key proves to the client that the server speaks the protocol; it is no secret.
        let _ = rand::fill(&mut key);
        let key = BASE64_STANDARD.encode(key);
        let fields = [("connection", "Upgrade"), ("upgrade", "websocket")];
        self.add_missing(&fields);
        self.add_missing(&[("sec-websocket-version", "13"), ("sec-websocket-key", &key)]);
    }

    fn add_missing(&mut self, fields: &[(&str, &str)]) {
        for (name, value) in fields {
            if self.fields.iter().all(|(own, _)| own != name) {
                self.fields.push(((*name).to_owned(), (*value).to_owned()));
            }
        }
    }

    /// The bytes of an HTTP/1.1 request (RFC 9112, section 3).
    pub fn http1(&self, url: &Url) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, url.path);
        for (name, value) in self.all(url) {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let body = if url.is_websocket { &[][..] } else { &self.body };
        [head.as_bytes(), body].concat()
    }

    /// The bytes of a request in this version, as the generator wants them: over HTTP/2 and HTTP/3
    /// without the body.
    pub fn bytes(&self, url: &Url, protocol: Protocol) -> Vec<u8> {
        if protocol == Protocol::Http1 {
            return self.http1(url);
        }
        // RFC 9113, 8.2.2: fields of the connection are not allowed; 8.3.1: :authority replaces
        // Host.
        let connection = ["connection", "keep-alive", "upgrade", "proxy-connection"];
        let mut all = self.all(url);
        let host = all.iter().find(|(name, _)| name == "host").map(|(_, host)| host.clone());
        all.retain(|(name, value)| match name.as_str() {
            "host" => false,
            "te" => value == "trailers",
            name => !connection.contains(&name),
        });
        let fields = RequestFields {
            method: self.method.as_str(),
            is_secure: url.is_secure,
            authority: host.as_deref().unwrap_or(&url.authority),
            path: &url.path,
            fields: &all,
        };
        if protocol == Protocol::Http3 { http3_request(&fields) } else { fields.block() }
    }

    /// The fields with those that were not given.
    pub(super) fn all(&self, url: &Url) -> Vec<(String, String)> {
        let agent = concat!("deathmatch/", env!("CARGO_PKG_VERSION")).to_owned();
        let mut all = Vec::new();
        for (name, value) in
            [("host", url.authority.clone()), ("user-agent", agent), ("accept", "*/*".to_owned())]
        {
            if self.fields.iter().all(|(given, _)| given != name) {
                all.push((name.to_owned(), value));
            }
        }
        if self.is_last && self.fields.iter().all(|(given, _)| given != "connection") {
            all.push(("connection".to_owned(), "close".to_owned()));
        }
        all.extend(self.fields.iter().cloned());
        let has_content =
            !self.body.is_empty() || matches!(self.method, Method::POST | Method::PUT);
        if has_content && !url.is_websocket {
            all.push(("content-length".to_owned(), self.body.len().to_string()));
        }
        all
    }
}

/// `Name: value`.
pub(super) fn read_field(text: &str) -> Result<(String, String), String> {
    let bad = || format!("-H {text:?}: write a field such as 'Accept: text/html'");
    let (name, value) = text.split_once(':').ok_or_else(bad)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| bad())?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
    if matches!(name.as_str(), "content-length" | "transfer-encoding") {
        return Err(format!("-H {text:?}: the length is that of -b; leave it out"));
    }
    let value = value.to_str().map_err(|_| bad())?.to_owned();
    Ok((name.as_str().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_given_fields_and_the_missing_ones() {
        let url: Url = "http://a:81/x".parse().unwrap();
        let text = |method: Option<&str>, fields: &[&str], body: Option<&str>| {
            let fields: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
            let request = Request::new(method, &fields, body.map(|b| b.as_bytes().to_vec()));
            request.map(|request| String::from_utf8(request.http1(&url)).unwrap())
        };
        let plain = text(None, &[], None).unwrap();
        assert!(plain.starts_with("GET /x HTTP/1.1\r\nhost: a:81\r\nuser-agent: deathmatch/"));
        assert!(plain.ends_with("\r\n\r\n") && !plain.contains("content-length"), "{plain}");
        let posted = text(None, &["Host: b", "x-y:  z "], Some("body")).unwrap();
        assert!(posted.starts_with("POST /x HTTP/1.1\r\n"), "{posted}");
        assert!(posted.contains("host: b\r\nx-y: z\r\ncontent-length: 4\r\n\r\nbody"), "{posted}");
        assert_eq!(posted.matches("host:").count(), 1, "{posted}");
        assert!(text(Some("HEAD"), &[], None).unwrap().starts_with("HEAD "));
        for (method, field, why) in [
            (Some("CONNECT"), "a: b", "-m"),
            (Some("G T"), "a: b", "-m"),
            (None, "a", "-H"),
            (None, "a b: c", "-H"),
            (None, "a: b\r\nc: d", "-H"),
            (None, "Content-Length: 3", "leave it out"),
        ] {
            let error = text(method, &[field], None).unwrap_err();
            assert!(error.contains(why), "{method:?} {field:?}: {error}");
        }
    }
}
