//! Grants: directories, environment variables. Without them a component has none.

use super::Served;

#[test]
fn a_component_has_only_what_it_is_granted() {
    let served = Served::start("", "");
    assert_eq!(served.get("/app/dirs").text(), "0");
    assert_eq!(served.get("/app/vars").text(), "1", "HURTLE_PATH");

    let table = "dirs = { '/data' = '{root}' }\nwritable_dirs = { '/state' = '{root}' }\n\
                 env = { A = 'b', C = 'd' }\n";
    let served = Served::start("", table);
    assert_eq!(served.get("/app/dirs").text(), "2");
    assert_eq!(served.get("/app/vars").text(), "3");
}
