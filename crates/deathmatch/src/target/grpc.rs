//! Messages of gRPC from JSON, as the service's `.proto` file describes them.

use std::env;
use std::path::{Path, PathBuf};

use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

/// The services of a `.proto` file and of those that it imports.
#[derive(Debug)]
pub struct Services(DescriptorPool);

impl Services {
    /// Reads a `.proto` file. Its imports are searched in its folder and those above it, up to the
    /// current directory.
    ///
    /// # Errors
    /// The place in the file, or in one of its imports, that cannot be read.
    pub fn read(file: &Path) -> Result<Services, String> {
        let failed = |why: String| format!("--proto {}: {why}", file.display());
        let whole = file.canonicalize().map_err(|e| failed(e.to_string()))?;
        let compiled = protox::compile([&whole], folders(&whole));
        let set = compiled.map_err(|e| failed(e.to_string()))?;
        DescriptorPool::from_file_descriptor_set(set)
            .map(Services)
            .map_err(|e| failed(e.to_string()))
    }

    /// Encodes a message that the method of this path, `/package.Service/Method`, takes.
    ///
    /// # Errors
    /// There is no such method, or the JSON is not of its message.
    pub fn encode(&self, path: &str, json: &[u8]) -> Result<Vec<u8>, String> {
        let input = self.input(path)?;
        let failed = |why: String| format!("-b: {} {why}", input.full_name());
        let json = if json.is_empty() { b"{}" } else { json };
        let mut from = serde_json::Deserializer::from_slice(json);
        let message = DynamicMessage::deserialize(input.clone(), &mut from)
            .and_then(|message| from.end().map(|()| message))
            .map_err(|e| failed(format!("is not read from this JSON: {e}")))?;
        Ok(message.encode_to_vec())
    }

    fn input(&self, path: &str) -> Result<MessageDescriptor, String> {
        let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
        let named = self.0.get_service_by_name(service);
        let found = named.and_then(|service| service.methods().find(|its| its.name() == method));
        found.map(|method| method.input()).ok_or_else(|| {
            let all = self.0.services().flat_map(|service| {
                let of = service.full_name().to_owned();
                let path = move |method: prost_reflect::MethodDescriptor| {
                    format!("/{of}/{}", method.name())
                };
                service.methods().map(path).collect::<Vec<_>>()
            });
            let all: Vec<String> = all.collect();
            match all.is_empty() {
                true => format!("{path}: --proto has no service"),
                false => format!("{path} is no method of --proto; it has {}", all.join(", ")),
            }
        })
    }
}

/// The folder of a file, and those above it up to the current directory if that is above it.
fn folders(file: &Path) -> Vec<PathBuf> {
    let own = file.parent().unwrap_or(Path::new("/"));
    let current = env::current_dir().unwrap_or_default();
    match own.starts_with(&current) {
        true => own
            .ancestors()
            .take_while(|folder| folder.starts_with(&current))
            .map(Path::to_owned)
            .collect(),
        false => vec![own.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn json_becomes_the_message_of_the_method() {
        let folder = env::temp_dir().join(format!("deathmatch-{}-proto", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("shop.proto");
        fs::write(
            folder.join("money.proto"),
            "syntax = \"proto3\"; message Money { int64 cents = 1; }",
        )
        .unwrap();
        let text = "syntax = \"proto3\"; package shop; import \"money.proto\";
            message Order { string item = 1; uint32 pieces = 2; Money price = 3; }
            service Shop { rpc Buy(Order) returns (Order); }";
        fs::write(&file, text).unwrap();
        let services = Services::read(&file).unwrap();
        let json = br#"{"item": "tea", "pieces": 3, "price": {"cents": "150"}}"#;
        let encoded = services.encode("/shop.Shop/Buy", json).unwrap();
        assert_eq!(encoded, b"\x0a\x03tea\x10\x03\x1a\x03\x08\x96\x01");
        assert_eq!(services.encode("/shop.Shop/Buy", b""), Ok(Vec::new()));
        for (path, json, why) in [
            ("/shop.Shop/Sell", "{}", "it has /shop.Shop/Buy"),
            ("/", "{}", "it has /shop.Shop/Buy"),
            ("/shop.Shop/Buy", "{\"itme\": 1}", "itme"),
            ("/shop.Shop/Buy", "{", "EOF"),
            ("/shop.Shop/Buy", "{} {}", "trailing"),
        ] {
            let error = services.encode(path, json.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{path} {json}: {error}");
        }
        fs::write(&file, "syntax = \"proto3\";\nmessage {").unwrap();
        let error = Services::read(&file).unwrap_err();
        assert!(error.contains("shop.proto"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
        assert!(Services::read(&file).is_err());
    }
}
