//! Rows of the next batch, asked for while this one computes: their way over the network costs no
//! time. Only where a step need not see what the one before it changed.
//!
//! They are asked for once gradients of this step are there, not when its own rows are: by then the
//! gradients of the step before are on their way, and half of the computing is left to hide the
//! answer's way behind.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use program::distributed::Mode;
use program::{OpDesc, Result};
use tensor::{MergeScratch, Tensor};

use super::rows::Question;

/// An answer that lies longer than this is not waited for again: it is asked for anew.
const KEPT_MAX: Duration = Duration::from_secs(30);

/// What is known of the next batch.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Its ids, by the variables they will be fed to.
    next: Vec<(String, Tensor)>,
    /// What was asked for, by the first output of the op that asks.
    asked: BTreeMap<String, (Instant, Question)>,
    /// Ops that ask, and whether they did so in this step.
    ops: Vec<(OpDesc, bool)>,
    /// Memory for telling ids apart.
    scratch: MergeScratch,
}

impl Ahead {
    /// Whether a trainer of this mode may see rows as they were a step before.
    pub(crate) fn helps(mode: Option<Mode>) -> bool {
        mode == Some(Mode::Async)
    }

    /// The next batch; what was known of another is forgotten.
    pub(crate) fn expect<'a>(&mut self, batch: impl Iterator<Item = (&'a str, &'a Tensor)>) {
        let mut n = 0;
        for (name, tensor) in batch.filter(|(_, tensor)| tensor.data::<i64>().is_ok()) {
            match self.next.get_mut(n) {
                Some((own, ids)) if own == name => ids.copy_from(tensor),
                _ => {
                    self.next.truncate(n);
                    self.next.push((name.to_string(), tensor.clone()));
                }
            }
            n += 1;
        }
        self.next.truncate(n);
    }

    /// The ids that an op will be given next; `None` if they are not fed.
    fn next_of(&self, op: &OpDesc) -> Option<Vec<&[i64]>> {
        let ids = |name: &String| {
            let (_, ids) = self.next.iter().find(|(own, _)| own == name)?;
            ids.data::<i64>().ok()
        };
        op.input_names("Ids").iter().map(ids).collect()
    }

    /// What an op asked for a step ago.
    pub(super) fn take(&mut self, op: &OpDesc) -> Option<Question> {
        let (since, question) = self.asked.remove(key(op))?;
        (since.elapsed() < KEPT_MAX).then_some(question)
    }

    /// An op has asked in this step, and will in the next.
    pub(super) fn note(&mut self, op: &OpDesc) {
        let place = self.ops.iter_mut().find(|(own, _)| key(own) == key(op));
        match place {
            Some((own, is_due)) if own == op => *is_due = true,
            Some(other) => *other = (op.clone(), true),
            None => self.ops.push((op.clone(), true)),
        }
    }

    /// Asks for what the ops of this step will need next, once, as far as that is known. An error of
    /// it is the next step's.
    pub(super) fn ask_next(
        &mut self,
        ask: impl Fn(&OpDesc, &[&[i64]], &mut MergeScratch) -> Result<Question>,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut ops = std::mem::take(&mut self.ops);
        for (op, is_due) in &mut ops {
            if !std::mem::take(is_due) {
                continue;
            }
            if let Some(Ok(question)) = self.next_of(op).map(|next| ask(op, &next, &mut scratch)) {
                self.asked.insert(key(op).to_string(), (Instant::now(), question));
            }
        }
        (self.ops, self.scratch) = (ops, scratch);
    }

    pub(super) fn scratch(&mut self) -> &mut MergeScratch {
        &mut self.scratch
    }
}

fn key(op: &OpDesc) -> &str {
    op.writes().next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_fed_is_known_before() {
        let (ids, x) = (Tensor::new([2, 1], &[7i64, 8]).unwrap(), Tensor::full([2], 1.0f32));
        let mut ahead = Ahead::default();
        ahead.expect([("x", &x), ("C1", &ids), ("C2", &ids)].into_iter());
        let look_up = |names: &[&str]| {
            let op = OpDesc::new("lookup_table").output("Out", "rows");
            names.iter().fold(op, |op, name| op.input("Ids", *name))
        };
        assert_eq!(ahead.next_of(&look_up(&["C2"])), Some(vec![&[7i64, 8][..]]));
        assert_eq!(ahead.next_of(&look_up(&["computed"])), None);
        assert_eq!(ahead.next_of(&look_up(&["x"])), None, "not ids");
        ahead.expect([("C2", &ids)].into_iter());
        assert_eq!(ahead.next_of(&look_up(&["C1"])), None, "of another batch");
        assert!(ahead.take(&look_up(&["C1"])).is_none(), "nothing was asked for");
    }

    #[test]
    fn ops_ask_once_a_step_and_only_if_they_asked_in_it() {
        let ids = Tensor::new([2, 1], &[7i64, 8]).unwrap();
        let op = OpDesc::new("lookup_table").output("Out", "rows").input("Ids", "C1");
        let other = OpDesc::new("lookup_table").output("Out", "others").input("Ids", "computed");
        let mut ahead = Ahead::default();
        let n_asked = std::cell::Cell::new(0);
        let ask = |_: &OpDesc, next: &[&[i64]], _: &mut MergeScratch| {
            assert_eq!(next, [&[7i64, 8][..]]);
            n_asked.set(n_asked.get() + 1);
            Err(program::op::host_error(crate::Error::NoJob))
        };
        for step in 1..=3 {
            ahead.expect([("C1", &ids)].into_iter());
            ahead.ask_next(ask);
            ahead.note(&op);
            ahead.note(&other);
            ahead.ask_next(ask);
            ahead.ask_next(ask);
            assert_eq!(n_asked.get(), step);
        }
    }
}
