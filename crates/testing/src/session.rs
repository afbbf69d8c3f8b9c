//! A net that is being run: two programs, an executor, a scope.

use program::Net;
use tensor::{Tensor, Value};
use train::{Error, Executor, Feed, Options, Scope};

/// Runs a net's programs in a scope of its own.
#[derive(Debug)]
pub struct Session {
    /// The programs.
    pub net: Net,
    /// The variables that live between runs.
    pub scope: Scope,
    exe: Executor,
}

impl Session {
    /// Runs the startup program.
    #[track_caller]
    pub fn start(net: Net) -> Self {
        Self::start_with(net, Options::default())
    }

    /// A session with other options.
    #[track_caller]
    pub fn start_with(net: Net, options: Options) -> Self {
        let exe = Executor::with_options(options);
        let mut session = Self { net, scope: Scope::new(), exe };
        let Session { net, scope, exe } = &mut session;
        let started = exe.run(&net.startup, scope, &mut Feed::new(), &[]);
        started.unwrap_or_else(|error| panic!("startup program: {error}"));
        session
    }

    /// Runs the main program once.
    #[track_caller]
    pub fn run(&mut self, feed: &mut Feed, fetch: &[&str]) -> Vec<Tensor> {
        self.try_run(feed, fetch).unwrap_or_else(|error| panic!("main program: {error}"))
    }

    /// Runs the program and returns the error, if there is one.
    pub fn try_run(&mut self, feed: &mut Feed, fetch: &[&str]) -> Result<Vec<Tensor>, Error> {
        self.exe.run(&self.net.main, &self.scope, feed, fetch)
    }

    /// A tensor of the scope.
    #[track_caller]
    pub fn tensor(&self, name: &str) -> Tensor {
        match self.scope.get(name) {
            Some(Value::Tensor(tensor)) => tensor,
            other => panic!("`{name}` is no tensor in the scope: {other:?}"),
        }
    }
}
