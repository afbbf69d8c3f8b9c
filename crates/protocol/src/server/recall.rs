//! `recall`: a trainer gets back what it gave to the cut that the term began from.

use wire::message::{Recall, Recalled};
use wire::recovery::Term;
use wire::{Millis, Refusal};

use super::work::OfCuts;
use super::{Asker, Purpose, Server, Task, term};

/// Gives a trainer what it gave to the base.
pub(super) fn serve(server: &mut Server, asker: Asker, recall: &Recall) {
    let &Recall { cut, from } = recall;
    let base = server.terms.term.base;
    if base != Some(cut) {
        let base = base.unwrap_or_default();
        return server.reply(asker.conn, asker.id, Refusal::NoSuchCut { cut, base });
    }
    let trainer = asker.trainer;
    if server.term.journals.contains_key(&trainer) {
        tell_piece(server, asker, from);
    } else {
        server.run(Purpose::Recall { asker, from }, Task::Journal { trainer, cut });
    }
}

/// A journal was read. If it is damaged, so is every cut that needs it: the next term begins from an older one.
pub(super) fn recalled(
    server: &mut Server,
    now: Millis,
    asker: Asker,
    from: u64,
    journal: OfCuts<Vec<u8>>,
) {
    let Term { number, base } = server.terms.term;
    let OfCuts { result, whole } = journal;
    match (result, base) {
        (Ok(journal), _) => {
            server.term.journals.insert(asker.trainer, journal.into());
            tell_piece(server, asker, from);
        }
        (Err(refusal), Some(base)) if !whole.contains(&base) => {
            server.warn(format!(
                "what trainers have given up to cut {base} cannot be read: {refusal}; everybody goes back to \
                 the newest cut that is whole on all servers"
            ));
            server.cuts.only(&whole);
            term::open(server, now, number + 1);
        }
        (Err(refusal), _) => server.reply(asker.conn, asker.id, refusal),
    }
}

/// Tells a trainer the next bytes of what it gave. Its journal is dropped with the last of them;
/// if the trainer asks again, it is read again.
fn tell_piece(server: &mut Server, asker: Asker, from: u64) {
    let Asker { conn, trainer, id } = asker;
    let mut all = server.term.states.get(&trainer).cloned().unwrap_or_default();
    let n_state = all.n_bytes() as u64;
    all.append(&server.term.journals.get(&trainer).cloned().unwrap_or_default());
    let start = usize::try_from(from).unwrap_or(usize::MAX);
    let end = start.saturating_add(server.config.piece_bytes.max(1));
    if end >= all.n_bytes() {
        server.term.journals.remove(&trainer);
    }
    let (n_bytes, bytes) = (all.n_bytes() as u64, all.range(start..end));
    server.reply(conn, id, Recalled { n_state, n_bytes, bytes });
}
