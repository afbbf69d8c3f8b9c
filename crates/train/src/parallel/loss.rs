//! The starting value of the loss gradient on each device.

use program::{OpDesc, role};

/// The start of a backward pass (Fluid: `GradientScaleStrategy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossScale {
    /// One over the number of devices of all trainers: gradients add up to those of the mean of the losses.
    #[default]
    PerDevice,
    /// One: gradients add up to those of the sum of the losses.
    One,
    /// The caller feeds the gradient of the loss.
    Fed,
}

/// How a program for several devices is trained, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    /// None: the program has no loss, nothing is trained.
    pub(crate) scale: Option<LossScale>,
    pub(crate) n_devices: usize,
    /// Trainers that add up their gradients, without servers; 1 if there is only this one.
    pub(crate) n_trainers: usize,
    /// Devices count into the same counters, one after the other.
    pub(crate) counts_together: bool,
}

impl Loss {
    pub(crate) fn trains(self) -> bool {
        self.scale.is_some()
    }

    /// The op as it runs on a device; None if the caller feeds what it would write.
    pub(crate) fn start(self, mut op: OpDesc) -> Option<OpDesc> {
        if op.role() != role::BACKWARD | role::LOSS {
            return Some(op);
        }
        match self.scale {
            Some(LossScale::Fed) => return None,
            Some(LossScale::PerDevice) => {
                // The text of a value goes before the number.
                op.attrs.remove("str_value");
                let n = self.n_devices * self.n_trainers;
                op.attrs.set("value", (1.0 / n as f64) as f32);
            }
            Some(LossScale::One) | None => {}
        }
        Some(op)
    }
}
