//! The layers of each crate's modules: what may use what. To change them, change them here.

/// The sources of `hurtle`.
pub(crate) const SRC: &str = "crates/hurtle/src/";

/// The sources of `hurtle-http`.
pub(crate) const HTTP_SRC: &str = "crates/hurtle-http/src/";

/// The sources of `hurtle-config`.
pub(crate) const CONFIG_SRC: &str = "crates/hurtle-config/src/";

/// The sources of `hurtle-import`.
pub(crate) const IMPORT_SRC: &str = "crates/hurtle-import/src/";

/// The modules of `hurtle`, bottom-up: each uses only what stands above it here. Modules on one
/// line never use each other. `config` and `import` are crates, which `lib.rs` names so. `lib.rs`,
/// which only lists the modules, is exempt.
const LAYERS: &[&[&str]] = &[
    &["sys"],
    &["rt"],
    &["clock"],
    &["metrics"],
    &["config"],
    &["users", "sockets"],
    &["tls"],
    &["acme"],
    &["disk"],
    &["body"],
    &["answer"],
    &["edits"],
    &["compress"],
    &["transport"],
    &["deadline", "protocol"],
    &["files", "observe", "cache", "limits"],
    &["auth", "uploads", "wasm", "shared_store"],
    &["handler"],
    &["site"],
    &["pipeline"],
    &["serve"],
    &["apps"],
    &["services"],
    &["monitoring"],
    &["server"],
    &["lifecycle"],
    &["explain", "import"],
    &["cli"],
    &["main"],
];

/// The modules of `hurtle-http`, likewise.
const HTTP_LAYERS: &[&[&str]] = &[
    &["semantics", "recent", "allowance", "compression"],
    &["stream"],
    &["request", "h2", "h3", "proxy_protocol", "fcgi", "uwsgi", "resp"],
    &["message"],
    &["h1"],
    &["cgi"],
];

/// The modules of `pipeline`, likewise: each step of an exchange uses only earlier ones and what
/// they share.
const PIPELINE_LAYERS: &[&[&str]] = &[
    &["balancers", "identify", "limit_log", "log_filter", "pace"],
    &["worker"],
    &["connection"],
    &["exchange"],
    &["finish", "observe", "resolve", "send"],
    &["body", "duplex", "refuse"],
    &["arriving", "body_writer"],
    &["beside", "stream"],
    &["respond"],
    &["client"],
    &["context", "limits", "relay", "tunnel"],
    &["gates"],
    &["handle", "known"],
    &["errors", "write"],
    &["run"],
];

/// The modules of `deathmatch`, likewise.
const DEATHMATCH_LAYERS: &[&[&str]] = &[
    &["random", "duration", "instant", "histogram"],
    &["sample", "tls"],
    &["load", "machine", "process"],
    &["network"],
    &["calls", "contender", "target", "verify"],
    &["stats", "plan"],
    &["arena"],
    &["report"],
    &["summary"],
    &["compare", "figures"],
    &["fleet"],
    &["cli"],
    &["commands", "bin"],
    &["main"],
];

/// A crate, or a module of one, whose modules have layers.
pub(crate) struct Tree {
    pub(crate) src: &'static str,
    pub(crate) layers: &'static [&'static [&'static str]],
}

impl Tree {
    /// Returns whether it is a whole crate, so that `crate` is a path from its root.
    pub(crate) fn is_crate(&self) -> bool {
        self.src.ends_with("/src/")
    }
}

/// The crates, and the modules of them, that have layers.
pub(crate) const TREES: [Tree; 4] = [
    Tree { src: "crates/hurtle/src/pipeline/", layers: PIPELINE_LAYERS },
    Tree { src: SRC, layers: LAYERS },
    Tree { src: HTTP_SRC, layers: HTTP_LAYERS },
    Tree { src: "crates/deathmatch/src/", layers: DEATHMATCH_LAYERS },
];
