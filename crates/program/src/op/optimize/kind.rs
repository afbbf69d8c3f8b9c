//! The variables and ops that an optimizer adds to a program for each parameter, and its options
//! with Fluid's defaults.

use std::fmt;

use crate::attr::Attr;

/// One kind of optimizer.
pub trait OptimizerKind: fmt::Debug + Send + Sync {
    /// The op that changes the parameter.
    fn op(&self) -> &'static str;

    /// Sets an option by its name in Fluid (a flag by 0 or 1); whether there is such an option.
    fn set(&mut self, option: &str, value: f64) -> bool;

    /// All options by their names in Fluid, and what they hold (a flag 0 or 1).
    fn settings(&self) -> Vec<(&'static str, f64)>;

    /// The attributes of the op that are options.
    fn options(&self) -> Vec<(&'static str, Attr)>;

    /// All attributes of the op.
    fn attrs(&self, _param: &str) -> Vec<(&'static str, Attr)> {
        self.options()
    }

    /// The variables it keeps beside each parameter, in the order they are created.
    fn states(&self) -> Vec<Accumulator> {
        Vec::new()
    }

    /// Whether the op reads a learning rate.
    fn has_learning_rate(&self) -> bool {
        true
    }

    /// The attribute that is a decay of parameters, for an optimizer that has one of its own.
    fn decay(&self) -> Option<&'static str> {
        None
    }

    /// A state that a `scale` op multiplies after all parameters have changed: its name, a factor.
    fn scaled_after(&self) -> Option<(&'static str, f32)> {
        None
    }
}

/// A variable that an optimizer keeps beside a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulator {
    /// Part of its name: `<param>_<name>_0`.
    pub name: &'static str,
    /// The port it is read at.
    pub input: &'static str,
    /// The port it is written at, if the op changes it.
    pub output: Option<&'static str>,
    /// Its first value.
    pub fill: f32,
    /// One number for the parameter instead of one for each weight.
    pub is_scalar: bool,
}

impl Accumulator {
    /// Accumulator for each weight at a pair of ports, starting at 0.
    pub(super) fn per_weight(name: &'static str, ports: (&'static str, &'static str)) -> Self {
        Self { name, input: ports.0, output: Some(ports.1), fill: 0.0, is_scalar: false }
    }

    /// One number that starts at `fill`; the op only reads it.
    pub(super) fn scalar(name: &'static str, input: &'static str, fill: f32) -> Self {
        Self { name, input, output: None, fill, is_scalar: true }
    }
}

/// The value of an option, as a number of Python.
pub(super) trait Setting {
    /// The number as a setting.
    fn from_number(value: f64) -> Self;

    /// The setting as a number.
    fn number(self) -> f64;
}

impl Setting for f32 {
    fn from_number(value: f64) -> Self {
        value as f32
    }

    fn number(self) -> f64 {
        self.into()
    }
}

impl Setting for bool {
    fn from_number(value: f64) -> Self {
        value != 0.0
    }

    fn number(self) -> f64 {
        f64::from(u8::from(self))
    }
}

/// Declares an optimizer: its op, its options with Fluid's defaults (and the attribute each is, if it
/// is one), and methods of [`OptimizerKind`] that differ from the usual. The type is also the op itself.
macro_rules! optimizer {
    ($(#[$doc:meta])* $name:ident: $op:literal {}) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name;

        impl $name {
            /// There are no options.
            pub(crate) const USUAL: Self = Self;
        }

        impl OptimizerKind for $name {
            fn op(&self) -> &'static str {
                $op
            }

            fn set(&mut self, _option: &str, _value: f64) -> bool {
                false
            }

            fn settings(&self) -> Vec<(&'static str, f64)> {
                Vec::new()
            }

            fn options(&self) -> Vec<(&'static str, Attr)> {
                Vec::new()
            }
        }
    };
    (
        $(#[$doc:meta])*
        $name:ident: $op:literal {
            $($(#[$more:meta])* $option:ident: $t:ty = $usual:expr $(=> $attr:literal)?,)*
        }
        $($methods:tt)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(
                #[doc = concat!("`", stringify!($usual), "` by default.")]
                $(#[$more])*
                pub $option: $t,
            )*
        }

        impl $name {
            /// The defaults of the options.
            pub(crate) const USUAL: Self = Self { $($option: $usual),* };
        }

        impl Default for $name {
            fn default() -> Self {
                Self::USUAL
            }
        }

        impl OptimizerKind for $name {
            fn op(&self) -> &'static str {
                $op
            }

            fn set(&mut self, option: &str, value: f64) -> bool {
                match option {
                    $(stringify!($option) => self.$option = Setting::from_number(value),)*
                    _ => return false,
                }
                true
            }

            fn settings(&self) -> Vec<(&'static str, f64)> {
                vec![$((stringify!($option), self.$option.number())),*]
            }

            fn options(&self) -> Vec<(&'static str, Attr)> {
                vec![$($(($attr, self.$option.into()),)?)*]
            }

            $($methods)*
        }
    };
}

/// The rules of an update op: its effect on rows that a gradient does not list, and the pairs of
/// ports that it changes.
macro_rules! rules {
    ($untouched:expr, $pairs:expr) => {
        rules! { $pairs }

        fn traits(&self, _attrs: &Attrs) -> Traits {
            Traits::update($untouched)
        }
    };
    ($pairs:expr) => {
        fn infer(&self, infer: &mut Infer<'_>) -> Result<()> {
            super::infer(infer, &$pairs)
        }

        fn optimizer(&self) -> Option<Box<dyn OptimizerKind>> {
            Some(Box::new(Self::USUAL))
        }
    };
}

/// Applies a rule to the parameter and the states at pairs of ports: `T => rule`.
macro_rules! step {
    ($run:ident, $pairs:expr, $sparse:expr, $t:ident => $rule:expr) => {
        $run.update($pairs, |$run, [param, states @ ..]| {
            for_float!(param.dtype(), $run.input_name("Param"), $t => {
                let rule = $rule;
                super::apply($run, &rule, $sparse, param, states)
            })
        })
    };
}
