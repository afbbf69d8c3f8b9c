//! Tests of messages speak through [`survives`].

use super::{Reply, Request};
use crate::codec::Writer;
use crate::frame::{self, Frame};

/// Sends a request through bytes and back.
#[track_caller]
pub(crate) fn survives(request: impl Into<Request>) {
    let request = request.into();
    let mut encoded = Writer::default();
    request.encode(&mut encoded);
    assert_eq!(request.n_bytes(), encoded.n_bytes() as u64, "counted without encoding");
    let bytes = frame::to_bytes(&Frame { id: 7, body: &request });
    let (id, back) = frame::read::<Request>(&mut bytes.as_slice(), frame::FRAME_BYTES_MAX).unwrap();
    assert_eq!((id, back), (7, request));
    refuses_every_cut(&bytes);
}

/// Like [`check`], for a reply.
#[track_caller]
pub(crate) fn answer_survives(reply: impl Into<Reply>) {
    let reply = reply.into();
    let bytes = frame::to_bytes(&Frame { id: u64::MAX, body: &reply });
    let (id, back) = frame::read::<Reply>(&mut bytes.as_slice(), frame::FRAME_BYTES_MAX).unwrap();
    assert_eq!((id, back), (u64::MAX, reply));
}

#[track_caller]
fn refuses_every_cut(bytes: &[u8]) {
    for n in 0..bytes.len() {
        let cut = frame::read::<Request>(&mut &bytes[..n], frame::FRAME_BYTES_MAX);
        assert!(cut.is_err(), "the first {n} bytes of {} passed", bytes.len());
    }
}
