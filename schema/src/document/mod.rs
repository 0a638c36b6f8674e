//! The JSON documents that the host writes for other programs: with `--json`, as records, and as results of MCP tools.
//!
//! A fact has the same key and the same type in every document. A command that fails prints a [`Failure`], or its
//! document with an `error` if earlier steps succeeded.

mod auto;
mod cache_cost;
mod compaction;
mod config;
mod conversation;
mod diff;
mod doctor;
mod error;
mod eval;
mod eval_cost;
mod log;
mod lost_paths;
mod strategy;
mod tokens;

pub use auto::{AlwaysReport, AutoReport, QueryReport, TriggerReport, TriggerResult, WindowOrigin};
pub use cache_cost::{AutoWait, CacheCost, CacheState, WaitReason};
pub use compaction::{
    ChangedTurn, CompactionReport, DeclineReport, DiagnosticReport, LogReport, OverlayReport, ResetDocument,
    WouldReport,
};
pub use config::{
    ApprovalEntry, ApprovalsReport, ApprovedFolder, ApprovedValue, CallReport, ConfigReport,
    ConfigSettingsReport, ConfigTrustReport, ConfigUntrustReport, ProfileReport, ValueRow,
};
pub use conversation::{
    AppliedOverlay, ForkOrigin, ForkOverlays, ForkReport, ForkedSession, ImageReport, ImportReport,
    LintDocument, ListedSession, PrintItem, PrintOrigin, PrintReport, SessionCounts, SessionListReport,
    ShowReport, ShownOverlay, StatsReport, StatsTotal, ViolationReport,
};
pub use diff::{
    ChangeContent, ChangeCounts, ChangeKind, DiffChange, DiffHunk, DiffOverlay, DiffReport, ViewCharacters,
};
pub use doctor::{DoctorFolder, DoctorLimits, DoctorReport, KeyReport, MissingReport};
pub use error::{ErrorKind, ErrorReport, Failure};
pub use eval::{
    EvalControl, EvalControls, EvalCutPoint, EvalGate, EvalGateFailure, EvalRecall, EvalRecallCount,
    EvalReport, EvalRound, EvalRow, EvalStatus, EvalTranscript,
};
pub use eval_cost::{EvalCache, EvalCost, EvalPriceFamily, EvalPrices, EvalReplay};
pub use log::{LogLevel, LogLine};
pub use lost_paths::{BetterPolicy, LostPaths};
pub use strategy::{
    CheckReport, CheckResult, FolderReport, StrategyListReport, StrategyRow, StrategyShowReport,
    StrategyTestReport, StrategyTrustReport, StrategyUntrustReport,
};
pub use tokens::{JpTokens, RawAndView, Saved, SavedOf, Sizes, TokenCounts, ViewTokens};
