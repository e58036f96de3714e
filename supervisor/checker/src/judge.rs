//! What an execution has come to: its outcome, and what that violates.

use super::left_files::LeftFiles;
use super::properties::{Ending, Properties};
use super::recovery::{self, Recovery};
use failure::Failure;
use session::{Options, Session};
use trace::{End, Violation};

/// All that the user said about ends.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    pub properties: Properties,
    pub recovery: Option<Recovery>,
    pub files: LeftFiles,
}

impl Judge {
    /// The outcome of an execution that has ended, and its violations.
    pub fn judge(
        &self,
        session: &mut Session,
        end: &End,
        options: &Options,
    ) -> Result<(Ending, Vec<Violation>), Failure> {
        let mut violations = self.properties.violations(session, end);
        if self.properties.expect_client_exit.is_some() {
            violations.extend(self.properties.client_violations(&session.client_exits()?));
        }
        let mut ending = Ending::of(session, end);
        let mut files = None;
        let is_from_outside = matches!(end, End::Killed(_)) && session.crash().is_none();
        if let Some(recovery) = self.recovery.as_ref().filter(|_| is_from_outside) {
            let (recovered, left) = recovery::recover(recovery, options, session)?;
            violations.extend(recovered.violation());
            let said: [&[u8]; 2] = [&recovered.stdout, &recovered.stderr];
            violations.extend(self.properties.forbidden_output(&said));
            violations.extend(self.properties.missing_output(&said));
            ending.recovery = Some(recovered);
            files = Some(left);
        }
        ending.files = self.files.collect(session, &options.config, files.as_ref());
        violations.extend(self.files.violations(&ending.files));
        Ok((ending, violations))
    }
}
