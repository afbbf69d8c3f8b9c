//! Events since the last cut that all servers have kept: they are repeated after a death.

use std::collections::VecDeque;

use tensor::Value;

use super::state::ScriptPosition;
use crate::error::Result;
use crate::scope::Scope;

/// An event of which only the effects are wanted, not the answer: the script has it.
pub(crate) trait Repeat<World: ?Sized>: Send {
    /// Does it again. If a cut lies inside it, it starts from there.
    fn repeat(&mut self, world: &World, from: Option<&[u8]>) -> Result<()>;

    /// The memory it takes to be able to.
    fn n_bytes(&self) -> usize;
}

/// A variable that a script changed between two events.
#[derive(Debug)]
pub(super) struct ScriptWrite {
    pub(super) scope: Scope,
    pub(super) name: String,
    /// None: it was removed.
    pub(super) value: Option<Value>,
}

impl ScriptWrite {
    pub(super) fn repeat(&self) {
        match &self.value {
            Some(value) => self.scope.write_own(&self.name, |own| *own = value.clone()),
            None => self.scope.erase(&[&self.name]),
        }
    }
}

/// How far the redo list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redoing {
    /// This event is about to be done.
    Begins(u64),
    /// It is done.
    Ended(u64),
}

enum RedoEntry<World: ?Sized> {
    Written(ScriptWrite),
    Event(Box<dyn Repeat<World>>),
}

/// Events since the last cut that all servers have kept.
pub(super) struct Redo<World: ?Sized> {
    /// By event; what a script changed comes before the event that followed.
    entries: VecDeque<(u64, RedoEntry<World>)>,
    n_bytes: usize,
    /// The first position that can be gone back to.
    start: ScriptPosition,
}

impl<World: ?Sized> Default for Redo<World> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), n_bytes: 0, start: ScriptPosition::default() }
    }
}

impl<World: ?Sized> std::fmt::Debug for Redo<World> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redo of {} entries since {:?}", self.entries.len(), self.start)
    }
}

impl<World: ?Sized> Redo<World> {
    pub(super) fn written(&mut self, event: u64, written: ScriptWrite) {
        self.n_bytes += written.value.as_ref().map_or(0, n_bytes);
        self.entries.push_back((event, RedoEntry::Written(written)));
    }

    pub(super) fn event(&mut self, event: u64, repeat: Box<dyn Repeat<World>>) {
        self.n_bytes += repeat.n_bytes();
        self.entries.push_back((event, RedoEntry::Event(repeat)));
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Whether everything since then is here.
    pub(super) fn reaches(&self, position: &ScriptPosition) -> bool {
        let key = |position: &ScriptPosition| (position.event, position.is_at_start);
        key(position) >= key(&self.start)
    }

    /// The job never goes back further than this.
    pub(super) fn forget_before(&mut self, position: &ScriptPosition) {
        while let Some((event, entry)) = self.entries.front()
            && is_before(*event, entry, position)
        {
            self.n_bytes -= match self.entries.pop_front() {
                Some((_, RedoEntry::Written(written))) => written.value.as_ref().map_or(0, n_bytes),
                Some((_, RedoEntry::Event(repeat))) => repeat.n_bytes(),
                None => 0,
            };
        }
        if self.reaches(position) {
            self.start = position.clone();
        }
    }

    /// Does everything again since then.
    pub(super) fn repeat(
        &mut self,
        world: &World,
        position: &ScriptPosition,
        tell: &mut dyn FnMut(Redoing) -> Result<()>,
    ) -> Result<()> {
        for (event, entry) in &mut self.entries {
            if is_before(*event, entry, position) {
                continue;
            }
            match entry {
                RedoEntry::Written(written) => written.repeat(),
                RedoEntry::Event(repeat) => {
                    let inside = position.inside.as_deref();
                    tell(Redoing::Begins(*event))?;
                    repeat.repeat(world, inside.filter(|_| *event == position.event))?;
                    tell(Redoing::Ended(*event))?;
                }
            }
        }
        Ok(())
    }
}

/// Whether something was over at a position.
fn is_before<World: ?Sized>(
    event: u64,
    entry: &RedoEntry<World>,
    position: &ScriptPosition,
) -> bool {
    let is_written = matches!(entry, RedoEntry::Written(_));
    event < position.event || event == position.event && is_written && position.is_at_start
}

/// The memory of a value.
pub(super) fn n_bytes(value: &Value) -> usize {
    match value {
        Value::Tensor(tensor) => tensor.bytes().len(),
        Value::Shared(tensor) => tensor.bytes().len(),
        Value::Rows(rows) => rows.ids.len() * 8 + rows.value.bytes().len(),
        Value::Array(parts) => parts.iter().map(|part| part.bytes().len()).sum(),
        Value::Keyed(table) => table.n_bytes(),
        Value::Steps(_) | Value::Empty => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tensor::Tensor;

    use super::*;

    type Log = RefCell<Vec<(u64, Option<Vec<u8>>)>>;

    struct Noted(u64);

    impl Repeat<Log> for Noted {
        fn repeat(&mut self, log: &Log, from: Option<&[u8]>) -> Result<()> {
            log.borrow_mut().push((self.0, from.map(<[u8]>::to_vec)));
            Ok(())
        }

        fn n_bytes(&self) -> usize {
            10
        }
    }

    fn at(event: u64, is_at_start: bool) -> ScriptPosition {
        ScriptPosition { event, is_at_start, inside: None }
    }

    /// Events 0 to 4; before event 2 the script sets `x`.
    fn redo(scope: &Scope) -> Redo<Log> {
        let mut redo = Redo::default();
        for event in 0..5 {
            if event == 2 {
                let value = Some(Value::from(Tensor::full([2], 2.0f32)));
                redo.written(2, ScriptWrite { scope: scope.clone(), name: "x".to_string(), value });
            }
            redo.event(event, Box::new(Noted(event)));
        }
        redo
    }

    #[test]
    fn what_was_over_is_not_done_again() {
        let (scope, log) = (Scope::new(), Log::default());
        let mut redo = redo(&scope);
        let mut told = Vec::new();
        let mut tell = |redoing| {
            told.push(redoing);
            Ok(())
        };
        redo.repeat(&log, &at(2, true), &mut tell).unwrap();
        assert_eq!(scope.get("x"), None, "it is in the state");
        redo.repeat(&log, &at(2, false), &mut tell).unwrap();
        assert!(scope.get("x").is_some());
        let inside = ScriptPosition { inside: Some(vec![7]), ..at(4, true) };
        redo.repeat(&log, &inside, &mut tell).unwrap();
        assert_eq!(told[..2], [Redoing::Begins(2), Redoing::Ended(2)]);
        let log = log.into_inner();
        let events: Vec<u64> = log.iter().map(|(event, _)| *event).collect();
        assert_eq!(events, [2, 3, 4, 2, 3, 4, 4]);
        assert_eq!(log[6].1, Some(vec![7]));
        assert!(log[..6].iter().all(|(_, from)| from.is_none()));
    }

    #[test]
    fn what_is_kept_is_forgotten() {
        let mut redo = redo(&Scope::new());
        assert_eq!(redo.n_bytes(), 58);
        redo.forget_before(&at(2, false));
        assert_eq!(redo.n_bytes(), 38);
        assert!(redo.reaches(&at(2, false)) && !redo.reaches(&at(1, true)));
        redo.forget_before(&at(2, true));
        assert_eq!(redo.n_bytes(), 30);
        redo.forget_before(&at(1, false));
        assert!(redo.reaches(&at(2, true)) && !redo.reaches(&at(2, false)), "never back again");
    }
}
