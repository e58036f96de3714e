//! `docs/syscalls.md` is what the table says.
//!
//! After a change to the table: `UPDATE=1 cargo test -p syscall-model --test coverage_page`.

use std::path::Path;

#[test]
fn the_coverage_page_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/syscalls.md");
    let expected = syscall_model::table::coverage_page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&page, &expected).expect("the page can be written");
    }
    let actual = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        actual == expected,
        "docs/syscalls.md does not match the table; run\n  \
         UPDATE=1 cargo test -p syscall-model --test coverage_page"
    );
}
