//! Directives that set how files and scripts are served: indexes, listings, types and PHP.

use std::collections::BTreeMap;

use hurtle_http::semantics::media;

use super::sections::Section;
use super::serving::check_page;
use crate::report::Report;
use crate::syntax::Directive;

/// Directives that change no response here, in lower case.
pub(super) const TUNING: &[&str] = &[
    "adddescription",
    "addicon",
    "addiconbyencoding",
    "addiconbytype",
    "allowoverride",
    "bufferedlogs",
    "cgipassauth",
    "defaulticon",
    "enablemmap",
    "enablesendfile",
    "headername",
    "indexoptions",
    "indexorderdefault",
    "indexstylesheet",
    "languagepriority",
    "keepalive",
    "readmename",
    "serversignature",
    "deflatecompressionlevel",
    "filterdeclare",
    "filterprovider",
    "filterchain",
];

/// The reason for a refusal of scripts with names such as a.phtml, whose sources would be sent.
const OTHER_SCRIPTS: &str = "names of scripts end with .php here";

/// Settings of the site's files and scripts.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// Names of indexes; `None`: Apache's own.
    pub(super) index: Option<Vec<String>>,
    pub(super) lists: bool,
    /// `true`: lists of directories leave names out.
    pub(super) hides_names: bool,
    /// `true`: links are not followed.
    pub(super) has_no_links: bool,
    pub(super) has_no_etag: bool,
    /// Media types by extension.
    pub(super) types: BTreeMap<String, String>,
    /// `true`: scripts of PHP are run.
    pub(super) has_php: bool,
    /// `true`: names such as x.php.bak are scripts, too.
    pub(super) has_inner_php: bool,
    /// Lines of the variable PHP_VALUE, each `name=value`.
    pub(super) php_values: Vec<String>,
    /// The address of PHP-FPM that the file names.
    pub(super) fastcgi: Option<String>,
    /// Variables of `SetEnv`, which scripts get.
    pub(super) variables: BTreeMap<String, String>,
    pub(super) compresses: bool,
    pub(super) body_bytes: Option<u64>,
}

impl Settings {
    /// Reads a directive of all requests; `None`: it is of another module.
    pub(super) fn read(
        &mut self,
        d: &Directive,
        report: &mut Report,
    ) -> Option<Result<(), String>> {
        let name = d.name.to_ascii_lowercase();
        Some(match name.as_str() {
            "directoryindex" => self.indexes(d, report),
            "options" => self.options(d, report),
            "addtype" => self.add_type(d),
            "sethandler" if is_of_scripts(d) => {
                Err("Apache runs every file as a script: write it in <FilesMatch \\.php$>"
                    .to_owned())
            }
            "addhandler" | "sethandler" => {
                self.has_inner_php |= name == "addhandler";
                self.handler(d)
            }
            "php_value" | "php_flag" => self.php(d, name == "php_flag"),
            "php_admin_value" | "php_admin_flag" => {
                Err("Apache allows it in its own configuration only".to_owned())
            }
            "setenv" | "passenv" | "unsetenv" => {
                if name == "setenv" && !d.arg(0).is_empty() {
                    self.variables.insert(d.arg(0).to_owned(), d.arg(1).to_owned());
                }
                match name.as_str() {
                    "setenv" => Ok(()),
                    _ => Err("write the variable in SetEnv".to_owned()),
                }
            }
            "setenvif" | "setenvifnocase" | "browsermatch" | "browsermatchnocase" => {
                conditional(d, report)
            }
            // A list would have the names that they hide, so that there is none.
            "indexignore" | "indexignorereset" => {
                self.hides_names |= !d.args.is_empty();
                report.leave_out(d);
                Ok(())
            }
            "fileetag" => {
                self.has_no_etag = d.args.iter().any(|arg| arg.eq_ignore_ascii_case("none"));
                Ok(())
            }
            "limitrequestbody" => match d.arg(0).parse() {
                Ok(bytes) => {
                    self.body_bytes = Some(bytes).filter(|bytes| *bytes > 0);
                    Ok(())
                }
                Err(_) => Err("it is a number of bytes".to_owned()),
            },
            "adddefaultcharset" | "addcharset" => charset(d, report),
            "addoutputfilterbytype" | "setoutputfilter" => {
                match d.args.iter().any(|arg| arg.eq_ignore_ascii_case("deflate")) {
                    true => {
                        self.compresses = true;
                        report.leave_out(d);
                        Ok(())
                    }
                    false => Err("of filters it knows DEFLATE".to_owned()),
                }
            }
            "acceptpathinfo" | "directoryslash" if d.arg(0).eq_ignore_ascii_case("on") => Ok(()),
            "directoryslash" => Err("directories have their slash".to_owned()),
            _ if TUNING.contains(&name.as_str()) => {
                report.leave_out(d);
                Ok(())
            }
            _ => return None,
        })
    }

    /// Reads a directive of some files; `None`: it is of another module.
    pub(super) fn read_of(
        &mut self,
        section: &Section<'_>,
        d: &Directive,
    ) -> Option<Result<(), String>> {
        let files = section.files.as_ref()?;
        let name = d.name.to_ascii_lowercase();
        let is_of_scripts = files.has("a.php") && !files.has("a.txt");
        match name.as_str() {
            "sethandler" | "addhandler" | "forcetype" if is_of_scripts => {
                Some(match files.is_of_scripts_alone() {
                    true => self.handler(d),
                    false => Err(OTHER_SCRIPTS.to_owned()),
                })
            }
            _ => None,
        }
    }

    fn indexes(&mut self, d: &Directive, report: &mut Report) -> Result<(), String> {
        let names = d.args.as_slice();
        if let [only] = names
            && only.eq_ignore_ascii_case("disabled")
        {
            self.index = Some(Vec::new());
            return Ok(());
        }
        if names.iter().any(|name| name.contains('/') || name.starts_with('.')) {
            return Err(
                "an index is a name in the directory; a path is FallbackResource".to_owned()
            );
        }
        let (names, scripts): (Vec<_>, Vec<_>) =
            names.iter().cloned().partition(|name| check_page(name).is_ok());
        if names.is_empty() {
            scripts.iter().try_for_each(|name| check_page(name))?;
        }
        if let Some(name) = scripts.first() {
            let text = format!(
                "a directory with {name} alone is as one without an index: GET /dir/; Apache runs it"
            );
            report.remark(d, &text);
        }
        self.has_php |= names.iter().any(|name| name.ends_with(".php"));
        // Each directive adds to the list.
        self.index.get_or_insert_default().extend(names);
        Ok(())
    }

    fn options(&mut self, d: &Directive, report: &mut Report) -> Result<(), String> {
        let is_signed = |arg: &String| arg.starts_with(['+', '-']);
        let signed = d.args.iter().filter(|arg| is_signed(arg)).count();
        if signed > 0 && signed < d.args.len() {
            return Err(
                "Apache answers 500: write + or - before each option, or before none".to_owned()
            );
        }
        if signed == 0 {
            (self.lists, self.has_no_links) = (false, true);
        }
        for arg in &d.args {
            let is_on = !arg.starts_with('-');
            match arg.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str() {
                "indexes" => {
                    self.lists = is_on;
                    if is_on {
                        report.remark(d, "the pages of directories look otherwise: GET /dir/");
                    }
                }
                "followsymlinks" | "symlinksifownermatch" => self.has_no_links = !is_on,
                "none" => {}
                "all" if is_on => return Err("write the options that are needed".to_owned()),
                "multiviews" | "execcgi" | "includes" | "includesnoexec" if !is_on => {}
                other => return Err(format!("the option {other} is not known")),
            }
        }
        Ok(())
    }

    fn add_type(&mut self, d: &Directive) -> Result<(), String> {
        let [media, extensions @ ..] = d.args.as_slice() else {
            return Err("it has a media type and extensions".to_owned());
        };
        let extensions =
            extensions.iter().map(|ext| ext.trim_start_matches('.').to_ascii_lowercase());
        if media.starts_with("application/x-httpd-php")
            || media.starts_with("application/x-httpd-ea-php")
        {
            self.has_inner_php = true;
            return self.scripts(&extensions.collect::<Vec<_>>());
        }
        if media.starts_with("application/x-httpd") || media.contains("server-parsed") {
            return Err("it makes programs of files".to_owned());
        }
        for ext in extensions {
            let known = media::of_extension(&ext).unwrap_or_default();
            if known.split(';').next() != Some(media) {
                self.types.insert(ext, media.clone());
            }
        }
        Ok(())
    }

    fn handler(&mut self, d: &Directive) -> Result<(), String> {
        if let Some(rest) = d.arg(0).strip_prefix("proxy:") {
            let address = match rest.split_once('|') {
                Some((socket, "fcgi://localhost" | "fcgi://localhost/" | "fcgi://127.0.0.1")) => {
                    socket.to_owned()
                }
                None => rest
                    .strip_prefix("fcgi://")
                    .unwrap_or_default()
                    .trim_end_matches('/')
                    .to_owned(),
                Some(_) => String::new(),
            };
            if address.is_empty() || (!address.starts_with("unix:/") && address.contains('/')) {
                return Err(
                    "of servers it knows PHP-FPM: proxy:unix:/PATH|fcgi://localhost".to_owned()
                );
            }
            self.fastcgi = Some(address);
        } else if !is_of_scripts(d) {
            return Err("of handlers it knows those of PHP".to_owned());
        }
        let extensions =
            d.args.iter().skip(1).map(|ext| ext.trim_start_matches('.').to_ascii_lowercase());
        self.scripts(&extensions.collect::<Vec<_>>())
    }

    fn scripts(&mut self, extensions: &[String]) -> Result<(), String> {
        self.has_php = true;
        match extensions.iter().all(|ext| ext == "php") {
            true => Ok(()),
            false => Err(OTHER_SCRIPTS.to_owned()),
        }
    }

    fn php(&mut self, d: &Directive, is_flag: bool) -> Result<(), String> {
        let [name, value] = d.args.as_slice() else {
            return Err("it has a name and a value".to_owned());
        };
        if name == "engine" {
            return Err("scripts are run in the whole directory, or in none of it".to_owned());
        }
        let value = match (is_flag, value.to_ascii_lowercase().as_str()) {
            (true, "on" | "1" | "yes" | "true") => "1".to_owned(),
            (true, _) => "0".to_owned(),
            (false, "none") => String::new(),
            (false, _) => value.clone(),
        };
        if value.contains('\n') || name.contains('=') {
            return Err("a setting is one line".to_owned());
        }
        self.has_php = true;
        self.php_values.push(format!("{name}={value}"));
        Ok(())
    }
}

/// `true`: a handler runs scripts of PHP.
fn is_of_scripts(d: &Directive) -> bool {
    let handler = d.arg(0).to_ascii_lowercase();
    let starts = ["application/x-httpd-", "php", "x-httpd-php", "fcgid-script"];
    handler.starts_with("proxy:")
        || (handler.contains("php") && starts.iter().any(|start| handler.starts_with(start)))
}

/// A variable that depends on the request: that of the password, or one that only tunes Apache.
fn conditional(d: &Directive, report: &mut Report) -> Result<(), String> {
    const HARMLESS: [&str; 6] = [
        "no-gzip",
        "gzip-only-text/html",
        "nokeepalive",
        "downgrade-1.0",
        "force-response-1.0",
        "dont-vary",
    ];
    let is_browser = d.name.to_ascii_lowercase().starts_with("browser");
    let variables = d.args.iter().skip(if is_browser { 1 } else { 2 });
    let is_harmless = |word: &String| {
        HARMLESS.contains(&word.trim_start_matches('!').split('=').next().unwrap_or_default())
    };
    let is_password = !is_browser
        && d.arg(0).eq_ignore_ascii_case("authorization")
        && d.arg(2) == "HTTP_AUTHORIZATION=$1";
    if is_password || variables.clone().all(is_harmless) {
        report.leave_out(d);
        return Ok(());
    }
    Err("variables of the environment are not known".to_owned())
}

fn charset(d: &Directive, report: &mut Report) -> Result<(), String> {
    let charset = d.arg(0).trim_start_matches('.').to_ascii_lowercase();
    match charset.as_str() {
        "utf-8" | "on" | "off" => {
            report.general(
                "Texts of files have charset=utf-8 (AddDefaultCharset, AddCharset): GET /a.txt; responses of \
                 scripts have their own."
                    .to_owned(),
            );
            Ok(())
        }
        _ => Err("texts are of UTF-8 here".to_owned()),
    }
}
