//! Numbers and files of the real Fluid, on one machine.

#[path = "../auc.rs"]
mod auc;
#[path = "../bad_input.rs"]
mod bad_input;
#[path = "../control_flow.rs"]
mod control_flow;
#[path = "../files.rs"]
mod files;
#[path = "../local_training.rs"]
mod local_training;
#[path = "../ops.rs"]
mod ops;
#[path = "../optimizer_steps.rs"]
mod optimizer_steps;
#[path = "../predictor.rs"]
mod predictor;
#[path = "../rng.rs"]
mod rng;
#[path = "../saved_models.rs"]
mod saved_models;
#[path = "../schedules.rs"]
mod schedules;
#[path = "../soak.rs"]
mod soak;
#[path = "../transpiler.rs"]
mod transpiler;
