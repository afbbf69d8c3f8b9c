//! HTTP by hand: requests within limits, answers, a server of one thread, and a way to ask many servers
//! at once.

mod answer;
mod ask;
mod chunks;
mod request;
mod server;

pub use answer::{HttpAnswer, JSON};
pub use ask::{HttpReply, ask_all};
pub use request::{HttpRequest, NoRequest, Requests};
pub use server::{Answering, HttpAddress, HttpError, HttpServer};
