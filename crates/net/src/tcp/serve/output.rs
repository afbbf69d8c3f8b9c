//! Answers of a connection: written as far as the peer takes them at once, the rest when it takes
//! more.
//!
//! Nothing here waits. An answer that cannot be written stays in line as it is: tensors are not copied,
//! however slow the peer.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, IoSlice, Write};
use std::sync::Arc;

use base::bytes::ByteWriter;
use tensor::{Tensor, Value};

use wire::SharedMemory;
use wire::budget::Held;
use wire::codec::Writer;
use wire::frame::{self, Frame};
use wire::message::{Ack, Lend, Reply};
use wire::shm::{COPIED_BYTES, Sharing, Window};

/// Answers that wait for a slow peer; one with more is cut off.
const QUEUE_MAX: usize = 4096;
/// Acknowledgements that may be left out because a later one says the same.
const ACKS_MAX: u64 = 16;
/// The most slices one system call is given.
const SLICES_MAX: usize = 512;

#[derive(Debug)]
pub(super) struct Output {
    /// Answers in line; only the first may have been begun.
    queue: VecDeque<Answer>,
    /// Changes that were served and are not acknowledged yet.
    unacknowledged: Unacknowledged,
    /// Questions that are not answered yet: acknowledgements go with the answers.
    owed: BTreeSet<u64>,
    /// Memory that the peer can read.
    sharing: Sharing,
    /// Bytes of answers that are held only here.
    n_bytes: u64,
    /// Their share of the budget.
    pub(super) held: Held,
}

#[derive(Debug, Default)]
struct Unacknowledged {
    last: u64,
    n: u64,
}

#[derive(Debug)]
struct Answer {
    id: u64,
    reply: Reply,
    /// Its bytes, once it was begun.
    begun: Option<Begun>,
}

/// An answer as bytes, of which the peer has taken some.
#[derive(Debug)]
struct Begun {
    /// An acknowledgement perhaps, the head, and the meta bytes.
    meta: Vec<u8>,
    /// Blobs that the peer reads in our memory.
    lent: Vec<usize>,
    n_written: usize,
}

impl Output {
    pub(super) fn new(memory: SharedMemory, is_local: bool) -> Self {
        let mut sharing = Sharing::new(memory);
        sharing.connected(is_local);
        let (queue, owed) = (VecDeque::new(), BTreeSet::new());
        let (unacknowledged, held) = (Unacknowledged::default(), Held::default());
        Self { queue, unacknowledged, owed, sharing, n_bytes: 0, held }
    }

    /// Whether answers wait for the peer.
    pub(super) fn is_stalled(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Counts the answers that wait for the peer; false if there are more than it may leave.
    pub(super) fn count(&mut self) -> bool {
        self.held.set(self.n_bytes).is_ok() && self.queue.len() <= QUEUE_MAX
    }

    /// Questions that are not answered yet.
    pub(super) fn n_owed(&self) -> usize {
        self.owed.len()
    }

    /// Whether changes wait for their acknowledgement.
    pub(super) fn is_ack_due(&self) -> bool {
        self.unacknowledged.n > 0
    }

    /// Whether questions wait for their answer, with which acknowledgements go.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// A question came.
    pub(super) fn asked(&mut self, id: u64) {
        self.owed.insert(id);
    }

    /// The peer lends memory, or has opened ours. Returns the memory that it lends, and the answer.
    pub(super) fn lend(&mut self, lend: &Lend) -> Option<(Arc<Window>, Reply)> {
        self.sharing.opened(lend.opened);
        let window = self.sharing.open(&lend.offer)?;
        let offer = self.sharing.offer().unwrap_or_default();
        Some((window, Reply::Lent(Lend { offer, opened: lend.offer.id })))
    }

    /// Notes an acknowledgement, for when the peer has nothing more to say; whether there are many
    /// by now.
    pub(super) fn acknowledge(&mut self, id: u64) -> bool {
        self.unacknowledged = Unacknowledged { last: id, n: self.unacknowledged.n + 1 };
        self.unacknowledged.n >= ACKS_MAX
    }

    /// Acknowledges what was served.
    pub(super) fn flush_acks(&mut self, stream: &mut impl Write) -> io::Result<()> {
        match std::mem::take(&mut self.unacknowledged) {
            Unacknowledged { n: 0, .. } => Ok(()),
            Unacknowledged { last, .. } => self.answer(stream, last, Ack.into()),
        }
    }

    /// Bytes of the tensors of an answer, without those that the peer reads where they are.
    pub(super) fn n_sent(&self, reply: &Reply) -> usize {
        let is_near = self.sharing.lender().is_some();
        let of_tensor = |tensor: &Tensor| {
            let n = tensor.bytes().len();
            let is_read = tensor.lender().is_some() || COPIED_BYTES.contains(&n);
            if is_near && is_read { 0 } else { n }
        };
        let of_value = |value: &Arc<Value>| match &**value {
            Value::Rows(rows) => 8 * rows.ids.len() + of_tensor(&rows.value),
            value => value.tensor().map_or(0, of_tensor),
        };
        match reply {
            Reply::Values(values) => values.0.iter().map(of_value).sum(),
            Reply::Rows(rows) => of_tensor(rows),
            Reply::Recalled(recalled) => recalled.bytes.len(),
            _ => 0,
        }
    }

    /// Puts an answer in line.
    pub(super) fn queue(&mut self, id: u64, reply: Reply) {
        self.n_bytes += own_bytes(&reply);
        self.queue.push_back(Answer { id, reply, begun: None });
    }

    /// Puts an answer in line and writes what the peer takes.
    pub(super) fn answer(
        &mut self,
        stream: &mut impl Write,
        id: u64,
        reply: Reply,
    ) -> io::Result<()> {
        let is_first = self.queue.is_empty();
        self.queue(id, reply);
        if is_first { self.flush(stream) } else { Ok(()) }
    }

    /// Writes what the peer takes.
    pub(super) fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        while let Some(mut answer) = self.queue.pop_front() {
            let is_written = match answer.begun.take() {
                None => self.begin(stream, &mut answer)?,
                Some(begun) => answer.go_on(stream, begun)?,
            };
            if !is_written {
                self.queue.push_front(answer);
                break;
            }
            self.n_bytes -= own_bytes(&answer.reply);
        }
        if self.queue.is_empty() && self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
        Ok(())
    }

    /// Begins an answer, with the acknowledgement that is due; whether it is written.
    fn begin(&mut self, stream: &mut impl Write, answer: &mut Answer) -> io::Result<bool> {
        self.owed.remove(&answer.id);
        let mut meta = Vec::with_capacity(256);
        if self.is_ack_due() && !matches!(answer.reply, Reply::Ack(_)) {
            let id = std::mem::take(&mut self.unacknowledged).last;
            meta = frame::encode(meta, &Frame { id, body: &Reply::Ack(Ack) }, None)?.meta.0;
        }
        let frame = Frame { id: answer.id, body: &answer.reply };
        let body = frame::encode(meta, &frame, self.sharing.lender())?;
        let n_written = write(stream, &body.meta.0, &body.blobs, 0)?;
        if n_written == body.n_bytes() {
            return Ok(true);
        }
        let Writer { meta: ByteWriter(meta), lent, .. } = body;
        answer.begun = Some(Begun { meta, lent, n_written });
        Ok(false)
    }
}

/// Bytes of an answer that were made for it. Values of variables are often those of the store.
fn own_bytes(reply: &Reply) -> u64 {
    let n_bytes = match reply {
        Reply::Rows(rows) => rows.bytes().len(),
        Reply::Recalled(recalled) => recalled.bytes.len(),
        _ => 0,
    };
    n_bytes as u64
}

impl Answer {
    /// Writes more of an answer; whether it is written.
    fn go_on(&mut self, stream: &mut impl Write, mut begun: Begun) -> io::Result<bool> {
        let mut body = Writer::default();
        self.reply.encode(&mut body);
        let sent = body.blobs.iter().enumerate().filter(|(at, _)| !begun.lent.contains(at));
        let blobs: Vec<&[u8]> = sent.map(|(_, blob)| *blob).collect();
        let n_bytes = begun.meta.len() + blobs.iter().map(|blob| blob.len()).sum::<usize>();
        begun.n_written += write(stream, &begun.meta, &blobs, begun.n_written)?;
        let is_written = begun.n_written == n_bytes;
        self.begun = Some(begun).filter(|_| !is_written);
        Ok(is_written)
    }
}

/// Writes meta and blobs behind the first `n_skipped` bytes of them; how many the peer took.
fn write(
    stream: &mut impl Write,
    meta: &[u8],
    blobs: &[&[u8]],
    n_skipped: usize,
) -> io::Result<usize> {
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(1 + blobs.len());
    let parts = std::iter::once(&meta).chain(blobs).filter(|part| !part.is_empty());
    slices.extend(parts.map(|part| IoSlice::new(part)));
    let mut left = slices.as_mut_slice();
    IoSlice::advance_slices(&mut left, n_skipped);
    let mut n_written = 0;
    while !left.is_empty() {
        let now = &left[..left.len().min(SLICES_MAX)];
        let n_wanted: usize = now.iter().map(|slice| slice.len()).sum();
        match stream.write_vectored(now) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                n_written += n;
                IoSlice::advance_slices(&mut left, n);
                // It took what there is place for.
                if n < n_wanted {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(n_written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::frame::FRAME_BYTES_MAX;
    use wire::message::{Pong, Values};

    /// Takes so many bytes, then says that it would have to wait.
    #[derive(Default)]
    struct Narrow {
        taken: Vec<u8>,
        n_left: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.n_left == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = bytes.len().min(self.n_left);
            self.n_left -= n;
            self.taken.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn output() -> Output {
        Output::new(SharedMemory::default(), false)
    }

    fn answers() -> Vec<Reply> {
        let values = [Value::Tensor(Tensor::full([30], 1.5f32)), Value::Empty];
        vec![
            Reply::Values(Values(values.map(Arc::new).into())),
            Reply::Rows(Tensor::full([7, 3], 2f64)),
            Pong::default().into(),
        ]
    }

    fn heard(bytes: &[u8]) -> Vec<(u64, Reply)> {
        let mut bytes = bytes;
        let mut all = Vec::new();
        while !bytes.is_empty() {
            all.push(frame::read::<Reply>(&mut bytes, FRAME_BYTES_MAX).unwrap());
        }
        all
    }

    #[test]
    fn answers_arrive_whole_however_little_the_peer_takes() {
        let expected: Vec<_> = (10..).zip(answers()).collect();
        for n_at_once in 1..400 {
            let (mut output, mut stream) = (output(), Narrow::default());
            for (id, reply) in expected.clone() {
                output.answer(&mut stream, id, reply).unwrap();
            }
            while output.is_stalled() {
                stream.n_left = n_at_once;
                output.flush(&mut stream).unwrap();
            }
            assert_eq!(heard(&stream.taken), expected, "{n_at_once} bytes at a time");
        }
    }

    #[test]
    fn acknowledgements_go_with_answers_or_when_there_are_many() {
        let (mut output, mut stream) = (output(), Narrow::default());
        stream.n_left = usize::MAX;
        output.asked(9);
        assert!(!output.acknowledge(1) && !output.acknowledge(2));
        assert!(output.owes() && output.is_ack_due());
        output.answer(&mut stream, 9, Pong::default().into()).unwrap();
        assert!(!output.owes() && !output.is_ack_due());
        assert_eq!(heard(&stream.taken), [(2, Ack.into()), (9, Pong::default().into())]);
        let many = (3..100).find(|&id| output.acknowledge(id));
        assert_eq!(many, Some(2 + ACKS_MAX));
        stream.taken.clear();
        output.flush_acks(&mut stream).unwrap();
        output.flush_acks(&mut stream).unwrap();
        assert_eq!(heard(&stream.taken), [(2 + ACKS_MAX, Ack.into())]);
    }

    #[test]
    fn a_broken_peer_is_an_error() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(output().answer(&mut Broken, 1, Pong::default().into()).is_err());
    }
}
