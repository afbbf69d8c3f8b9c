//! A trainer's log lines about recovery.

use std::time::Duration;

use net::lines::Line;

use crate::recover::Left;

const SITE: &str = "recovery";

/// A process that was started again repeats its script.
pub(super) fn repeats(n_events: u64, cut: u64) -> Line {
    let text = format!(
        "this trainer was started again: the first {n_events} events of its script are answered from the \
         journal of cut {cut}, nothing is computed and nothing is saved"
    );
    Line::info(SITE, text)
}

/// It has caught up.
pub(super) fn caught_up(n_events: u64) -> Line {
    Line::info(SITE, format!("{n_events} events were answered; from here on this trainer computes"))
}

/// The job goes back, and why.
pub(super) fn goes_back(why: &str) -> Line {
    Line::warning(SITE, format!("{why}; this trainer goes back to the last cut with the others"))
}

/// It went back, and has done again what came after.
pub(super) fn went_back(cut: u64, n_events: u64, took: Duration) -> Line {
    let text = format!(
        "went back to cut {cut} and did {n_events} events again, in {} ms",
        took.as_millis()
    );
    Line::info(SITE, text)
}

/// Events after a cut were dropped to free memory.
pub(super) fn forgets(cut: u64) -> Line {
    let text = format!(
        "the other trainers wait for this one, so no cut follows cut {cut}; the events since that cut were dropped to \
         free memory. If a process dies now, this trainer ends and repeats its script"
    );
    Line::warning(SITE, text)
}

/// The journal has as many bytes as it may have.
pub(super) fn journal_is_full(n_bytes: u64) -> Line {
    let text = format!(
        "the values that the script of this trainer has fetched take {} MiB, the limit of its journal \
         (FLAGS_journal_mb): the job continues, but if this trainer dies, it cannot repeat its script, and the job ends. \
         Save a model now and then, or fetch less",
        n_bytes >> 20
    );
    Line::warning(SITE, text)
}

/// Trainers before have left this of a pass.
pub(super) fn left(number: u64, left: &Left) -> Option<Line> {
    let pass = number + 1;
    let text = match left {
        Left::All => return None,
        Left::Nothing => {
            format!("pass {pass}: the former trainers completed it; it is not repeated")
        }
        Left::Rest(_) => format!(
            "pass {pass}: trainers before had begun it, what they have read of this trainer's files is left out"
        ),
        Left::Unknown(why) => {
            let text =
                "it begins anew, and what trainers before have trained of it is trained again";
            return Some(Line::warning(
                SITE,
                format!("pass {pass}: what is left of it cannot be told ({why}); {text}"),
            ));
        }
    };
    Some(Line::info(SITE, text))
}

/// The job has other servers.
pub(super) fn follows(endpoints: &[String]) -> Line {
    let (n, list) = (endpoints.len(), endpoints.join(", "));
    Line::info(SITE, format!("the job has {n} servers now, {list}: this trainer turns to them"))
}

/// Says that a trainer ends because it was asked to, and is not through; launchers look for it.
pub const ENDS: &str = "this trainer was asked to end";

/// SIGTERM came.
pub(super) fn ends(cut: Option<u64>) -> Line {
    let text = match cut {
        Some(cut) => format!("{ENDS}: cut {cut} is kept, it ends now"),
        None => format!("{ENDS}, it ends now"),
    };
    Line::info(SITE, text)
}
