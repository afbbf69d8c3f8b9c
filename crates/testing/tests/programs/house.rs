//! House rules, documents and the pages of commands: the tests of `make check`.

#[path = "../command_pages.rs"]
mod command_pages;
#[path = "../dependencies.rs"]
mod dependencies;
#[path = "../documents.rs"]
mod documents;
#[path = "../names.rs"]
mod names;
#[path = "../tidy.rs"]
mod tidy;
