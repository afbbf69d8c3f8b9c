//! Shows the progress of the phases of this process: on a terminal one line each that moves, elsewhere one
//! line a minute. A thread looks at them; the working threads only count.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use base::EvenIfPoisoned;
use indicatif::{MultiProgress, ProgressDrawTarget};
use metrics::{PhaseState, PhaseView, show_phases};

use crate::moving::{self, DRAWINGS, MovingLine};

/// The default interval between lines in a log.
pub const NOTE_EVERY: Duration = Duration::from_secs(60);
/// How long the thread that shows phases waits for another one.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How often phases are looked at where nothing moves.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a line is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(1000 / DRAWINGS as u64);
/// Shorter phases are not drawn.
const SHORT: Duration = Duration::from_millis(300);
/// Phases of at least this length leave a line.
const LONG: Duration = Duration::from_secs(2);

static SCREEN: OnceLock<Arc<Screen>> = OnceLock::new();

/// How progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProgressMode {
    /// Lines that move on a terminal, one line a minute elsewhere.
    #[default]
    Usual,
    /// One line a minute, even on a terminal: several processes share it, say.
    Lines,
    /// Not at all.
    Off,
}

impl ProgressMode {
    /// The names of all modes.
    pub const NAMES: &[&str] = &["auto", "lines", "off"];

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "auto" => Some(Self::Usual),
            "lines" => Some(Self::Lines),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}

/// Begins to show phases, once; a log gets a line so often.
pub fn show_progress(mode: ProgressMode, note_every: Duration) {
    if mode == ProgressMode::Off || SCREEN.get().is_some() {
        return;
    }
    let draws = mode == ProgressMode::Usual && moving::is_terminal();
    let screen = Arc::new(Screen::new(draws, note_every));
    if SCREEN.set(screen.clone()).is_ok() {
        show_phases(Box::new(View(screen)));
    }
}

/// Writes something while nothing is drawn.
pub fn apart<T>(write: impl FnOnce() -> T) -> T {
    match SCREEN.get().filter(|screen| screen.is_drawing.load(Ordering::Relaxed)) {
        Some(screen) => screen.lines.suspend(write),
        None => write(),
    }
}

/// Whether a line moves on the terminal: it takes the place of whatever has no end there.
pub fn is_drawing() -> bool {
    SCREEN.get().is_some_and(|screen| screen.is_drawing.load(Ordering::Relaxed))
}

/// Clears moving lines for a moment: something else is about to be written.
pub fn make_room() {
    if let Some(screen) = SCREEN.get().filter(|screen| screen.is_drawing.load(Ordering::Relaxed)) {
        // A terminal that is gone needs no room.
        _ = screen.lines.clear();
    }
}

/// Leaves a line behind.
fn leave(line: &str) {
    _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

struct View(Arc<Screen>);

impl PhaseView for View {
    fn begins(&self, phase: &Arc<PhaseState>) {
        Screen::begins(&self.0, phase);
    }

    fn ends(&self, phase: &Arc<PhaseState>) {
        self.0.ends(phase);
    }
}

/// A phase that is under way.
struct ShownPhase {
    state: Arc<PhaseState>,
    line: Option<MovingLine>,
    noted: Instant,
    is_noted: bool,
}

#[derive(Default)]
struct Shown {
    phases: BTreeMap<usize, ShownPhase>,
    has_thread: bool,
}

struct Screen {
    draws: bool,
    note_every: Duration,
    is_drawing: AtomicBool,
    lines: MultiProgress,
    shown: Mutex<Shown>,
    /// A phase has begun or ended.
    changed: Condvar,
}

impl Screen {
    fn new(draws: bool, note_every: Duration) -> Self {
        let lines = MultiProgress::with_draw_target(if draws {
            ProgressDrawTarget::stderr_with_hz(DRAWINGS)
        } else {
            ProgressDrawTarget::hidden()
        });
        let shown = Mutex::default();
        let changed = Condvar::new();
        let is_drawing = AtomicBool::new(false);
        Self { draws, note_every, is_drawing, lines, shown, changed }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().even_if_poisoned()
    }

    fn begins(own: &Arc<Self>, state: &Arc<PhaseState>) {
        let mut shown = own.lock();
        let phase =
            ShownPhase { state: state.clone(), line: None, noted: state.start, is_noted: false };
        shown.phases.insert(Arc::as_ptr(state).addr(), phase);
        if shown.has_thread {
            own.changed.notify_all();
            return;
        }
        let screen = own.clone();
        let thread = std::thread::Builder::new().name("progress".to_string());
        // Without a thread nothing is shown, and the work is done all the same.
        shown.has_thread = thread.spawn(move || screen.run()).is_ok();
    }

    fn ends(&self, state: &Arc<PhaseState>) {
        let mut shown = self.lock();
        let Some(phase) = shown.phases.remove(&Arc::as_ptr(state).addr()) else { return };
        let elapsed = state.start.elapsed();
        if let Some(line) = &phase.line {
            line.clear();
            // A launcher reports the end of its job itself.
            if elapsed >= LONG && !state.unit.is_empty() {
                let text = format!("{}: {}", state.name, state.result(elapsed));
                self.lines.suspend(|| leave(&text));
            }
        }
        self.is_drawing
            .store(shown.phases.values().any(|phase| phase.line.is_some()), Ordering::Relaxed);
        if phase.is_noted {
            drop(shown);
            tracing::info!(target: "paddlewheel::progress", "{} is done: {}", state.name, state.result(elapsed));
        }
    }

    /// Shows phases as long as there are any.
    fn run(&self) {
        let every = if self.draws { DRAW_EVERY } else { LOOK_EVERY.min(self.note_every) };
        let mut shown = self.lock();
        loop {
            if shown.phases.is_empty() {
                let (still, waited) = self
                    .changed
                    .wait_timeout_while(shown, IDLE_MAX, |shown| shown.phases.is_empty())
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                shown = still;
                if waited.timed_out() && shown.phases.is_empty() {
                    shown.has_thread = false;
                    return;
                }
            }
            let notes =
                if self.draws { self.draw(&mut shown) } else { notes(&mut shown, self.note_every) };
            drop(shown);
            for note in notes {
                tracing::info!(target: "paddlewheel::progress", "{note}");
            }
            std::thread::sleep(every);
            shown = self.lock();
        }
    }

    /// Draws phases that are not short.
    fn draw(&self, shown: &mut Shown) -> Vec<String> {
        for phase in shown.phases.values_mut() {
            let elapsed = phase.state.start.elapsed();
            if elapsed < SHORT {
                continue;
            }
            let line =
                phase.line.get_or_insert_with(|| MovingLine::among(&self.lines, &phase.state.name));
            line.draw(phase.state.share(), &phase.state.words(elapsed));
            self.is_drawing.store(true, Ordering::Relaxed);
        }
        Vec::new()
    }
}

/// The lines of phases that have had none for so long.
fn notes(shown: &mut Shown, every: Duration) -> Vec<String> {
    let mut notes = Vec::new();
    for phase in shown.phases.values_mut().filter(|phase| phase.noted.elapsed() >= every) {
        (phase.noted, phase.is_noted) = (Instant::now(), true);
        let words = phase.state.words(phase.state.start.elapsed());
        notes.push(format!("{}: {words}", phase.state.name));
    }
    notes
}
