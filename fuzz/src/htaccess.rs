//! `htaccess`: the importer of .htaccess files.

use hurtle_import::htaccess::{self as importer, Options, Tree};

/// Most bytes of an input: each expression in it is compiled several times.
const INPUT_BYTES_MAX: usize = 1 << 10;

/// A .htaccess file is refused with a reason, or translated to a valid configuration; a part of it
/// is, only if it is not translated as a whole.
pub fn htaccess(data: &[u8]) {
    let data = data.get(..INPUT_BYTES_MAX).unwrap_or(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let directories = vec!["build".to_owned(), "storage".to_owned()];
    let tree = Tree { directories, ..Tree::empty("/srv/www") };
    // Half of the inputs are for a site whose names are known.
    let hosts = match text.len() % 2 {
        0 => Vec::new(),
        _ => vec!["example.org".to_owned(), "www.example.org".to_owned()],
    };
    let options = Options { hosts, fastcgi: None };
    let whole = importer::htaccess(text, &tree, &options, false);
    match (&whole, importer::htaccess(text, &tree, &options, true)) {
        (Ok(whole), Ok(partial)) => assert_eq!(whole, &partial),
        (Err(_), Ok(partial)) => assert!(partial.left_out > 0, "{}", partial.text),
        (whole, Err(problems)) => {
            assert!(whole.is_err(), "{problems:?}");
            assert!(problems.iter().all(|problem| !problem.is_empty()));
        }
    }
    if let Err(problems) = whole {
        assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.is_empty()));
    }
}
