//! Rows of the next batch, requested while this batch computes, so that the network costs no time.
//! Only in modes in which a step need not see the changes of the step before.
//!
//! They are requested when the gradients of this step exist, not when its own rows have arrived. By
//! then the gradients of the step before are in flight, and half of the computation is left to hide
//! the latency of the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use program::Result;
use program::distributed::route::LookUpRoute;
use tensor::{MergeScratch, Tensor};

use super::rows::RowsRequest;

/// An answer older than this is not used: the rows are asked for again.
const KEPT_MAX: Duration = Duration::from_secs(30);

/// The knowledge of the next batch.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// Its ids, by the variables they will be fed to.
    next: Vec<(String, Tensor)>,
    /// Look-ups of this step and of those before.
    asking: Vec<Asking>,
    /// Memory for telling ids apart.
    scratch: MergeScratch,
}

/// A look-up that may ask before its step.
#[derive(Debug)]
struct Asking {
    look_up: Arc<LookUpRoute>,
    /// It was made in this step, and nothing was asked for the next one yet.
    is_due: bool,
    /// The request under way.
    asked: Option<(Instant, RowsRequest)>,
}

/// Look-ups that are remembered: programs come and go, and what they asked is soon too old.
const ASKING_MAX: usize = 64;

impl Prefetch {
    /// Announces the next batch; drops the knowledge of another one.
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

    /// The ids that a look-up will be given next; `None` if they are not fed.
    fn next_of(&self, look_up: &LookUpRoute) -> Option<Vec<&[i64]>> {
        let ids = |name: &String| {
            let (_, ids) = self.next.iter().find(|(own, _)| own == name)?;
            ids.data::<i64>().ok()
        };
        look_up.ids.iter().map(ids).collect()
    }

    fn asking(&mut self, look_up: &Arc<LookUpRoute>) -> Option<&mut Asking> {
        self.asking.iter_mut().find(|asking| Arc::ptr_eq(&asking.look_up, look_up))
    }

    /// The request of one step ago.
    pub(super) fn take(&mut self, look_up: &Arc<LookUpRoute>) -> Option<RowsRequest> {
        let (since, question) = self.asking(look_up)?.asked.take()?;
        (since.elapsed() < KEPT_MAX).then_some(question)
    }

    /// A look-up was made in this step, and will be in the next.
    pub(super) fn note(&mut self, look_up: &Arc<LookUpRoute>) {
        if let Some(asking) = self.asking(look_up) {
            asking.is_due = true;
            return;
        }
        if self.asking.len() == ASKING_MAX {
            self.asking.remove(0);
        }
        self.asking.push(Asking { look_up: look_up.clone(), is_due: true, asked: None });
    }

    /// Asks for what the look-ups of this step will need next, once, as far as that is known. An
    /// error of it is the next step's.
    pub(super) fn ask_next(
        &mut self,
        ask: impl Fn(&LookUpRoute, &[&[i64]], &mut MergeScratch) -> Result<RowsRequest>,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut all = std::mem::take(&mut self.asking);
        for asking in &mut all {
            if !std::mem::take(&mut asking.is_due) {
                continue;
            }
            let next = self.next_of(&asking.look_up);
            if let Some(Ok(question)) = next.map(|next| ask(&asking.look_up, &next, &mut scratch)) {
                asking.asked = Some((Instant::now(), question));
            }
        }
        (self.asking, self.scratch) = (all, scratch);
    }

    pub(super) fn scratch(&mut self) -> &mut MergeScratch {
        &mut self.scratch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use program::distributed::route::IdPartition;

    fn look_up(names: &[&str]) -> Arc<LookUpRoute> {
        Arc::new(LookUpRoute {
            pieces: Vec::new(),
            partition: IdPartition::Range,
            padding: None,
            peek: false,
            width: 1,
            plain_ids: false,
            ids: names.iter().map(|name| name.to_string()).collect(),
        })
    }

    #[test]
    fn only_what_is_fed_is_known_before() {
        let (ids, x) = (Tensor::new([2, 1], &[7i64, 8]).unwrap(), Tensor::full([2], 1.0f32));
        let mut prefetch = Prefetch::default();
        prefetch.expect([("x", &x), ("C1", &ids), ("C2", &ids)].into_iter());
        assert_eq!(prefetch.next_of(&look_up(&["C2"])), Some(vec![&[7i64, 8][..]]));
        assert_eq!(prefetch.next_of(&look_up(&["computed"])), None);
        assert_eq!(prefetch.next_of(&look_up(&["x"])), None, "not ids");
        prefetch.expect([("C2", &ids)].into_iter());
        assert_eq!(prefetch.next_of(&look_up(&["C1"])), None, "of another batch");
        assert!(prefetch.take(&look_up(&["C1"])).is_none(), "nothing was asked for");
    }

    #[test]
    fn look_ups_ask_once_a_step_and_only_if_they_were_made_in_it() {
        let ids = Tensor::new([2, 1], &[7i64, 8]).unwrap();
        let (fed, other) = (look_up(&["C1"]), look_up(&["computed"]));
        let mut prefetch = Prefetch::default();
        let n_asked = std::cell::Cell::new(0);
        let ask = |_: &LookUpRoute, next: &[&[i64]], _: &mut MergeScratch| {
            assert_eq!(next, [&[7i64, 8][..]]);
            n_asked.set(n_asked.get() + 1);
            Err(program::op::host_error(crate::Error::NoJob))
        };
        for step in 1..=3 {
            prefetch.expect([("C1", &ids)].into_iter());
            prefetch.ask_next(ask);
            prefetch.note(&fed);
            prefetch.note(&other);
            prefetch.ask_next(ask);
            prefetch.ask_next(ask);
            assert_eq!(n_asked.get(), step);
        }
        (0..2 * ASKING_MAX).for_each(|_| prefetch.note(&look_up(&["C1"])));
        assert_eq!(prefetch.asking.len(), ASKING_MAX);
    }
}
