//! Numbers of the variables of servers, and where the pieces of a parameter are.

use std::collections::BTreeSet;

use program::distributed::{Piece, ServerId, VarId, difference_of};

use super::plan::{JobPlan, Param, of_trainer};

impl JobPlan {
    /// For each server, the sorted names of all that this trainer may send it or ask it for.
    fn vars(&self) -> Vec<Vec<String>> {
        let of_server = |(number, endpoint): (usize, &String)| {
            let placed = self.job.on(endpoint).map(|placed| &placed.piece.name);
            let mut names: BTreeSet<String> = placed.cloned().collect();
            if self.is_geo() {
                names.extend(self.job.on(endpoint).map(|placed| difference_of(&placed.piece.name)));
            }
            for param in &self.params {
                let sent = param.pieces.iter().zip(self.sent_names(param));
                let here = sent.filter(|(piece, _)| piece.server == ServerId(number));
                names.extend(here.map(|(_, name)| name));
            }
            names.extend(self.counter.iter().map(|it| of_trainer(it, self.job.trainer_id)));
            names.into_iter().collect()
        };
        self.job.endpoints.iter().enumerate().map(of_server).collect()
    }

    /// Gives the variables of servers their numbers.
    pub(super) fn number(&mut self) {
        self.job.vars = self.vars();
        let vars = &self.job.vars;
        let placed = self.job.placement.iter_mut().map(|placed| &mut placed.piece);
        for piece in placed.chain(self.params.iter_mut().flat_map(|param| &mut param.pieces)) {
            let names = vars.get(piece.server.0).map_or(&[][..], Vec::as_slice);
            piece.var = VarId::find(names, &piece.name).unwrap_or(VarId::NONE);
        }
    }

    /// The servers of a parameter's blocks.
    pub(super) fn epmap(&self, param: &Param) -> Vec<String> {
        param.pieces.iter().map(|piece| self.job.endpoint(piece.server).to_string()).collect()
    }

    /// Whether a server has a piece.
    pub(super) fn is_at(&self, piece: &Piece, endpoint: &str) -> bool {
        self.job.endpoint(piece.server) == endpoint
    }
}
