//! The first section of every file: whose it is, and what it follows.

use base::bytes::{ByteReader, ByteWriter, Read};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::serve) enum FileKind {
    /// Everything at a cut.
    Base,
    /// What changed since the cut before.
    Increment,
    /// The term that the server serves.
    Term,
}

/// A cut, with a random number that tells it from others of the same number: after a rollback, a
/// job makes cuts with the same numbers again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct CutId {
    pub(in crate::serve) cut: u64,
    pub(in crate::serve) id: u64,
}

impl CutId {
    pub(super) fn write(self, to: &mut ByteWriter) {
        to.u64(self.cut).u64(self.id);
    }

    pub(super) fn read(from: &mut ByteReader<'_>) -> Read<Self> {
        Ok(Self { cut: from.u64()?, id: from.u64()? })
    }
}

impl std::fmt::Display for CutId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:016x})", self.cut, self.id)
    }
}

/// Who writes snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Owner {
    /// What all processes of the job agree on, in words.
    pub(in crate::serve) job: String,
    /// The servers do the same for the same variables.
    pub(in crate::serve) model: u64,
    /// Which server, of how many.
    pub(in crate::serve) server: u32,
    pub(in crate::serve) n_servers: u32,
    pub(in crate::serve) n_trainers: u32,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) struct Header {
    pub(in crate::serve) kind: FileKind,
    pub(in crate::serve) owner: Owner,
    /// From 1 on; 0 if this is no cut of the job, but what a server took over before its time.
    pub(in crate::serve) term: u64,
    pub(in crate::serve) at: CutId,
    /// The cut before, of an increment.
    pub(in crate::serve) after: CutId,
}

impl Header {
    /// Whether the job can go back to it.
    pub(in crate::serve) fn is_cut(&self) -> bool {
        self.term > 0
    }

    pub(in crate::serve) fn to_bytes(&self) -> Vec<u8> {
        let Header { kind, owner, term, at, after } = self;
        let Owner { job, model, server, n_servers, n_trainers } = owner;
        let mut to = ByteWriter::default();
        to.u8(*kind as u8 + 1).text(job).u64(*model).u32(*server);
        to.u32(*n_servers).u32(*n_trainers).u64(*term);
        at.write(&mut to);
        after.write(&mut to);
        to.0
    }

    pub(in crate::serve) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::read(&mut ByteReader::new(bytes)).ok()?
    }

    /// None: a kind of file that nobody writes.
    fn read(parts: &mut ByteReader<'_>) -> Read<Option<Self>> {
        let kind = match parts.u8()? {
            1 => FileKind::Base,
            2 => FileKind::Increment,
            3 => FileKind::Term,
            _ => return Ok(None),
        };
        let owner = Owner {
            job: parts.text()?.to_string(),
            model: parts.u64()?,
            server: parts.u32()?,
            n_servers: parts.u32()?,
            n_trainers: parts.u32()?,
        };
        let term = parts.u64()?;
        let (at, after) = (CutId::read(parts)?, CutId::read(parts)?);
        parts.end()?;
        Ok(Some(Self { kind, owner, term, at, after }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back() {
        let owner = Owner {
            job: "sync training, 2 trainers, 3 servers".to_string(),
            model: 17,
            server: 1,
            n_servers: 3,
            n_trainers: 2,
        };
        let (at, after) = (CutId { cut: 9, id: 10 }, CutId { cut: 8, id: 11 });
        for kind in [FileKind::Base, FileKind::Increment, FileKind::Term] {
            let header = Header { kind, owner: owner.clone(), term: 4, at, after };
            let bytes = header.to_bytes();
            assert_eq!(Header::from_bytes(&bytes).as_ref(), Some(&header));
            assert_eq!(Header::from_bytes(&bytes[..bytes.len() - 1]), None);
            assert_eq!(Header::from_bytes(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Header::from_bytes(&[9; 80]), None);
    }
}
