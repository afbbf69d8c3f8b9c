//! An op's ports resolved to places in the list of variables: done once, used every step.

use crate::block::OpDesc;
use crate::distributed::route::Route;
use crate::names::EMPTY;

/// For each port, where its variables are; `None` for a placeholder.
#[derive(Clone, Debug, Default)]
pub struct Wiring {
    inputs: Ports,
    outputs: Ports,
    /// The message of the op to servers.
    route: Option<Route>,
}

type Ports = Vec<(String, Vec<Option<usize>>)>;

impl Wiring {
    /// Resolves the names of `op`. `slot` says where a variable is.
    pub fn new(op: &OpDesc, mut slot: impl FnMut(&str) -> usize) -> Self {
        let mut ports = |ports: &[(String, Vec<String>)]| {
            let mut place = |var: &String| (var != EMPTY).then(|| slot(var));
            let port = |(name, vars): &(String, Vec<String>)| {
                (name.clone(), vars.iter().map(&mut place).collect())
            };
            ports.iter().map(port).collect()
        };
        let inputs = ports(&op.inputs);
        Self { inputs, outputs: ports(&op.outputs), route: None }
    }

    /// Adds a port (or variables to it) for reading and writing that the op's description does not have.
    pub fn attach(&mut self, port: &str, slots: Vec<Option<usize>>) {
        for ports in [&mut self.inputs, &mut self.outputs] {
            match ports.iter_mut().find(|(name, _)| name == port) {
                Some((_, held)) => held.extend(slots.iter().copied()),
                None => ports.push((port.to_string(), slots.clone())),
            }
        }
    }

    /// Sets what the op tells servers.
    pub fn with_route(mut self, route: Option<Route>) -> Self {
        self.route = route;
        self
    }

    /// The message of the op to servers, if it talks to any.
    pub fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }

    /// Where the variables of an input port are; none if the port is absent.
    pub fn input(&self, port: &str) -> &[Option<usize>] {
        find(&self.inputs, port)
    }

    /// Where the variables of an output port are; none if the port is absent.
    pub fn output(&self, port: &str) -> &[Option<usize>] {
        find(&self.outputs, port)
    }

    /// Whether a place is read by this op.
    pub fn reads(&self, slot: usize) -> bool {
        self.inputs.iter().any(|(_, slots)| slots.contains(&Some(slot)))
    }

    /// Every place read.
    pub fn read(&self) -> impl Iterator<Item = usize> {
        self.inputs.iter().flat_map(|(_, slots)| slots.iter().flatten().copied())
    }

    /// Every place written.
    pub fn written(&self) -> impl Iterator<Item = usize> {
        self.outputs.iter().flat_map(|(_, slots)| slots.iter().flatten().copied())
    }
}

/// An op has a handful of ports: comparing a few short words beats any map.
fn find<'a>(ports: &'a Ports, port: &str) -> &'a [Option<usize>] {
    ports.iter().find(|(name, _)| name == port).map_or(&[], |(_, slots)| slots)
}
