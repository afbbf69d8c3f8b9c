//! A variable's description: the facts about it before it holds anything.

use tensor::DType;

use crate::param::ParamInfo;

/// The kind of value of a variable; the number is Fluid's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum VarKind {
    /// A dense tensor, with or without sequences.
    #[default]
    LodTensor = 7,
    /// Ids with one row of values each.
    SelectedRows = 8,
    /// The feeds of a saved program.
    FeedMinibatch = 9,
    /// The fetched values of a saved program.
    FetchList = 10,
    /// The values that the steps of a block leave for its gradient.
    StepScopes = 11,
    /// Sequences by length, for programs that sort them.
    LodRankTable = 12,
    /// A list of tensors.
    LodTensorArray = 13,
    /// Devices.
    PlaceList = 14,
    /// Gives batches.
    Reader = 15,
    /// Of Fluid's threads in programs, which are gone.
    Channel = 16,
    /// Known to the op that made it only.
    Raw = 17,
    /// Several values.
    Tuple = 18,
}

impl VarKind {
    /// Every kind.
    pub const ALL: [VarKind; 12] = [
        VarKind::LodTensor,
        VarKind::SelectedRows,
        VarKind::FeedMinibatch,
        VarKind::FetchList,
        VarKind::StepScopes,
        VarKind::LodRankTable,
        VarKind::LodTensorArray,
        VarKind::PlaceList,
        VarKind::Reader,
        VarKind::Channel,
        VarKind::Raw,
        VarKind::Tuple,
    ];

    /// The kind of a code in a program.
    pub fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as i64 == code)
    }

    /// Fluid's name, `LOD_TENSOR` and the like.
    pub fn name(self) -> &'static str {
        match self {
            VarKind::LodTensor => "LOD_TENSOR",
            VarKind::SelectedRows => "SELECTED_ROWS",
            VarKind::FeedMinibatch => "FEED_MINIBATCH",
            VarKind::FetchList => "FETCH_LIST",
            VarKind::StepScopes => "STEP_SCOPES",
            VarKind::LodRankTable => "LOD_RANK_TABLE",
            VarKind::LodTensorArray => "LOD_TENSOR_ARRAY",
            VarKind::PlaceList => "PLACE_LIST",
            VarKind::Reader => "READER",
            VarKind::Channel => "CHANNEL",
            VarKind::Raw => "RAW",
            VarKind::Tuple => "TUPLE",
        }
    }

    /// Whether variables of this kind have a shape and an element type.
    pub fn has_tensor(self) -> bool {
        matches!(self, VarKind::LodTensor | VarKind::SelectedRows | VarKind::LodTensorArray)
    }
}

/// Shape and type of a variable; -1 stands for a size known only when it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The kind of its value.
    pub kind: VarKind,
    /// Type of the elements.
    pub dtype: DType,
    /// Sizes of the dimensions.
    pub dims: Vec<i64>,
    /// Levels of ragged offsets.
    pub lod_level: i32,
}

impl Meta {
    /// A dense tensor without sequences.
    pub fn dense(dtype: DType, dims: &[i64]) -> Self {
        Self { kind: VarKind::LodTensor, dtype, dims: dims.to_vec(), lod_level: 0 }
    }

    /// A copy with other sizes.
    pub fn with_dims(&self, dims: Vec<i64>) -> Self {
        Self { dims, ..self.clone() }
    }

    /// A copy with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dtype, ..self.clone() }
    }

    /// A copy with another number of sequence levels.
    pub fn with_lod_level(&self, lod_level: i32) -> Self {
        Self { lod_level, ..self.clone() }
    }
}

/// The number of elements of these sizes; the largest number if it overflows.
pub fn n_elements(dims: &[i64]) -> i64 {
    dims.iter().fold(1, |n: i64, &size| n.saturating_mul(size))
}

/// A variable of a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VarDesc {
    /// Unique in its block.
    pub name: String,
    /// Shape and type.
    pub meta: Meta,
    /// Lives in the scope between runs, and is saved.
    pub persistable: bool,
    /// Its shape is checked when it is fed (`fluid.data`).
    pub need_check_feed: bool,
    /// Gradients do not pass it.
    pub stop_gradient: bool,
    /// An input of the program.
    pub is_data: bool,
    /// The outputs of a reader, if a script set them by hand.
    pub of_reader: Vec<Meta>,
    /// The facts that make it a parameter.
    pub param: Option<ParamInfo>,
    /// Clips its gradient between two ops of the backward pass: (min, max).
    pub error_clip: Option<(f32, f32)>,
    /// Parts of its bytes that this version does not know, kept for the next writer.
    pub unknown: Unknown,
}

/// Bytes of fields that this version does not know, per message they were found in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Of the message itself.
    pub own: Vec<u8>,
    /// Of the `VarType` inside.
    pub var_type: Vec<u8>,
    /// Of the description of a tensor with sequences inside that.
    pub lod_tensor: Vec<u8>,
    /// Of the innermost description, of a tensor.
    pub tensor: Vec<u8>,
}

impl VarDesc {
    /// `float32 [-1, 4]`, and what is special about it: as errors tell variables apart.
    pub fn shown(&self) -> String {
        let Meta { kind, dtype, dims, lod_level } = &self.meta;
        let lod = (*lod_level > 0).then(|| format!(" of lod_level {lod_level}"));
        let other = (*kind != VarKind::LodTensor).then(|| format!(" as {}", kind.name()));
        let kept = self.persistable.then(|| " (persistable)".to_string());
        let special = [lod, other, kept].into_iter().flatten().collect::<String>();
        format!("{} {dims:?}{special}", dtype.name())
    }

    /// A variable of this name and shape, nothing else said.
    pub fn new(name: &str, meta: Meta) -> Self {
        Self { name: name.to_string(), meta, ..Self::default() }
    }

    /// Makes it live between runs.
    pub fn persistable(mut self) -> Self {
        self.persistable = true;
        self
    }
}
