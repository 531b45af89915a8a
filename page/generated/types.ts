// The types of the server's answers and requests, and its routes.
// Written by `python -m tools.page_types` from the OpenAPI document of src/determined/web.

// GET /api/changes?seen= -> Changes
// GET /api/trials?experiment=&metric=&archived= -> TrialRows
// GET /api/trials/{trial_id} -> TrialDetail
// GET /api/experiments?archived= -> ExperimentRows
// GET /api/experiments/{experiment_id} -> ExperimentDetail
// GET /api/metrics?experiment=&trial= -> MetricKeys
// GET /api/experiments/{experiment_id}/checkpoints -> ShownCheckpoints
// GET /api/trials/{trial_id}/checkpoints -> ShownCheckpoints
// POST /api/checkpoints/{checkpoint_id}/verify VerifyRequest -> Verified
// GET /api/experiments/{experiment_id}/code -> CodeFiles
// GET /api/experiments/{experiment_id}/code/file?path= -> FileText
// GET /api/experiments/{experiment_id}/code/diff?other= -> CodeDifference
// GET /api/experiments/{experiment_id}/code/archive -> a file
// GET /api/curves?trials=&key=&axis=&from=&to=&points=&archived= -> Curves
// GET /api/trials/{trial_id}/profile?key=&from=&to=&points= -> Curves
// GET /api/trials/{trial_id}/moment?key=&axis=&x=&time= -> Moment
// GET /api/logs?trial=&experiment=&trials=&after=&before=&level=&rank=&stream=&text=&regex=&around_time=&limit= -> LogLines
// GET /api/trials/{trial_id}/log -> a file
// GET /api/experiments/{experiment_id}/log -> a file
// GET /api/compare?trials= -> Comparison
// GET /api/experiments/{experiment_id}/decisions -> Decisions
// GET /api/failures?experiment= -> Failures
// GET /api/queue -> QueueRows
// GET /api/models -> ModelRows
// GET /api/models/{model_id} -> ModelDetail
// POST /api/actions ActionRequest -> ActionResults
// POST /api/actions/preview ActionRequest -> Preview
// POST /api/export ExportRequest -> a file

/** States of trials that have failed. */
export const FAILED: readonly string[] = ["ERROR", "INVALID_HP"];
/** States of trials that have processes, or whose exit is being handled. */
export const WITH_PROCESSES: readonly string[] = ["RUNNING", "STOPPING"];

/** An action on ids of experiments. "kill_trial" acts on ids of trials, "register" and "delete_checkpoint" on ids of checkpoints. */
export interface ActionRequest {
  action: "pause" | "activate" | "cancel" | "kill" | "kill_trial" | "continue" | "extend" | "fork" | "archive" | "unarchive" | "label" | "unlabel" | "rename" | "describe" | "note" | "register" | "delete" | "delete_checkpoint";
  ids: number[] | string[];
  options?: Options;
}

/** The result of an action for one id. `created` is the id of a new experiment. */
export interface ActionResult {
  id: number | string;
  ok: boolean;
  message: string;
  created: number | null;
}

/** The results of an action, for each id in the order of the request. */
export interface ActionResults {
  results: ActionResult[];
}

/** Whether an action can be requested now, and if not, why. */
export interface ActionState {
  name: string;
  enabled: boolean;
  why_not: string | null;
}

/** An attempt of a trial. `checkpoint` is the one that it started from, null if it started from scratch. */
export interface Attempt {
  number: number;
  started: number;
  ended: number | null;
  first_batch: number;
  last_batch: number | null;
  checkpoint: string | null;
  why_ended: string | null;
  exit_code: number | null;
  host: string;
  state: string;
}

/** Where an attempt begins on the axis. */
export interface AttemptPlace {
  number: number;
  x: number;
}

/** The version of the store's content; it differs from `seen` if anything was written since. */
export interface Changes {
  version: string;
  changed: boolean;
  store: StoreState;
  running: number;
  now: number;
}

/** A file of a checkpoint. */
export interface CheckpointFile {
  path: string;
  bytes: number;
}

/** The files that differ from those of another experiment. */
export interface CodeDifference {
  files: FileDifference[];
  note: string | null;
}

/** A file of an experiment's code. */
export interface CodeFile {
  path: string;
  bytes: number;
}

/** The files of an experiment's code. `note` says why there are none, or which code it is. */
export interface CodeFiles {
  files: CodeFile[];
  note: string | null;
}

/** A file of the code: for each trial which variant it has ("a", "b", ...), null where the file is missing. */
export interface ComparedFile {
  path: string;
  variants: (string | null)[];
  differs: boolean;
}

/** One hyperparameter or setting: its value for each trial, null where it is missing, and whether they differ. */
export interface ComparedValue {
  name: string;
  values: unknown[];
  differs: boolean;
}

/** Trials side by side, in the order in which they were asked for. */
export interface Comparison {
  version: string;
  trials: TrialRow[];
  hparams: ComparedValue[];
  config: ComparedValue[];
  code: ComparedFile[];
  notes: string[];
}

/** A curve of one trial: for each x of the answer the smallest and the largest value there, null where it has none. Of `points` reported values `drawn` are in the answer. `first` and `last` are the first and the last finite point of the whole curve, also if a part of it is drawn. `started` is the time at which the axis of time begins. `attempt` is null, except for the points that this attempt reported and a later one repeats. */
export interface Curve {
  trial: number;
  attempt: number | null;
  started: number | null;
  points: number;
  drawn: number;
  low: (number | null)[];
  high: (number | null)[];
  marks: CurveMark[];
  first: CurvePoint | null;
  last: CurvePoint | null;
  failed: boolean;
}

/** Where a curve has values that cannot be drawn, and how many. */
export interface CurveMark {
  x: number;
  kind: "NaN" | "Infinity" | "-Infinity";
  count: number;
}

/** A point of a curve. */
export interface CurvePoint {
  x: number;
  y: number;
}

export interface Curves {
  version: string;
  axis: "batches" | "epochs" | "time";
  from: number | null;
  to: number | null;
  x: number[];
  curves: Curve[];
  attempts: AttemptPlace[];
  note: string | null;
}

/** All decisions of a search in their order. `rungs` has the lengths at which the trials of each bracket are compared, in units of `time_metric`. `problem` says why some decisions have no reason. */
export interface Decisions {
  version: string;
  method: string;
  time_metric: string;
  problem: string | null;
  rungs: number[][];
  decisions: SearchDecision[];
}

/** Everything about one experiment but its trials. `original` is the configuration as it was written. */
export interface ExperimentDetail {
  version: string;
  row: ExperimentRow;
  config: Record<string, unknown>;
  config_text: string;
  original: string;
  seed: number;
  notes: string;
  searched: Searched[];
  actions: ActionState[];
  commands: Record<string, string>;
  python: Record<string, string>;
}

/** An experiment. `states` counts its trials by state; `failed` of them are in state ERROR or INVALID_HP. An `abandoned` one should be running, but its process has exited and no queue will start it. */
export interface ExperimentRow {
  id: number;
  name: string;
  description: string;
  labels: string[];
  state: string;
  pending: "pause" | "activate" | "cancel" | "kill" | null;
  archived: boolean;
  owner: string;
  host: string | null;
  standalone: boolean;
  searcher: string | null;
  metric: string | null;
  smaller_is_better: boolean;
  best: Number;
  best_trial: number | null;
  newest_trial: number | null;
  progress: number | null;
  created: number;
  ended: number | null;
  trials: number;
  states: Record<string, number>;
  failed: number;
  checkpoint_bytes: number;
  parent: number | null;
  reason: string | null;
  imported: boolean;
  has_notes: boolean;
  queued: boolean;
  abandoned: boolean;
}

/** All experiments, newest first. */
export interface ExperimentRows {
  version: string;
  rows: ExperimentRow[];
}

/** The address of a view, such as `/trials/3?...`, and the requests whose answers it shows. */
export interface ExportRequest {
  address: string;
  requests?: string[];
}

/** Trials that failed with the same error at the same place. `command` runs the first of them again. `command_note` says which values of the command are masked, and have to be replaced. */
export interface FailureGroup {
  error: string;
  example: string;
  file: string | null;
  line: number | null;
  trials: number[];
  experiments: number[];
  shared: SharedHparam[];
  last_lines: string[];
  command: string | null;
  command_note: string | null;
}

/** Failed trials by error, the most frequent error first. */
export interface Failures {
  version: string;
  groups: FailureGroup[];
}

/** A file that differs between two experiments. `diff` is in the unified format. */
export interface FileDifference {
  path: string;
  status: "added" | "removed" | "changed";
  diff: string;
}

/** The text of a file; null, with a note, if it is too large or no text. */
export interface FileText {
  text: string | null;
  bytes: number;
  note: string | null;
}

/** A log line. Ids grow in the order in which lines reached the store; `cut` characters at its end are left out. A line that is not `finished` is the present state of a progress bar, which the next line of its rank and stream replaces. */
export interface LogLine {
  id: number;
  trial: number;
  attempt: number;
  time: number;
  level: string | null;
  rank: number;
  stream: string;
  text: string;
  cut: number;
  finished: boolean;
}

/** Log lines in order, and whether there are matching ones before and after them. A search for a regular expression ends after some seconds. `searched` is the part that it has read, null without an expression or if the log is empty; `older` and `newer` then say whether lines before and after this part were left out. To continue, ask for the lines before `searched.first` or after `searched.last`. */
export interface LogLines {
  lines: LogLine[];
  older: boolean;
  newer: boolean;
  searched: SearchedPart | null;
}

/** A line of a log that was searched, and when it was written. */
export interface LogPlace {
  id: number;
  time: number;
}

/** A metric. `numeric` is false if none of its values is a number. */
export interface MetricKey {
  key: string;
  group: string;
  name: string;
  numeric: boolean;
}

/** The metrics of a trial, of an experiment, or of the store, by group and name. The metrics of trials whose statistics are not computed yet are read from their first and newest reports, but only for the newest of these trials: `unread_trials` is the number of the others. Damaged reports are skipped. */
export interface MetricKeys {
  version: string;
  keys: MetricKey[];
  unread_trials: number;
}

/** A model and its versions, newest first. */
export interface ModelDetail {
  version: string;
  row: ModelRow;
  versions: ModelVersionRow[];
}

/** A registered model. */
export interface ModelRow {
  id: number;
  name: string;
  description: string;
  notes: string;
  labels: string[];
  metadata: Record<string, unknown>;
  owner: string;
  archived: boolean;
  created: number;
  updated: number;
  versions: number;
}

/** All models, newest first. */
export interface ModelRows {
  version: string;
  rows: ModelRow[];
}

/** A version of a model and its checkpoint. */
export interface ModelVersionRow {
  number: number;
  name: string;
  notes: string;
  labels: string[];
  metadata: Record<string, unknown>;
  created: number;
  updated: number;
  checkpoint: ShownCheckpoint;
}

/** A point of a curve: its place on the axis, and when it was reported. */
export interface Moment {
  x: number;
  time: number;
}

export type Number = number | "NaN" | "Infinity" | "-Infinity" | null;

/** The options of an action, besides the ids; each action uses some of these and ignores the others. */
export interface Options {
  text?: string | null;
  max_trials?: number | null;
  slots?: number | null;
  config?: string[];
  from_checkpoint?: string | null;
  create_model?: boolean;
}

/** A file that a trial uploaded in addition to its checkpoints. */
export interface OutputFile {
  path: string;
  bytes: number;
}

/** The expected effect of an action, for the dialog that asks the user to confirm it. */
export interface Preview {
  text: string;
  items: PreviewItem[];
  bytes: number;
  refused: string[];
}

/** Something that would be deleted. */
export interface PreviewItem {
  name: string;
  bytes: number;
}

/** The body of every answer that is an error. */
export interface Problem {
  error: string;
  hint: string | null;
}

/** An experiment in the queue. It runs if it holds slots. `states` counts its trials by state. */
export interface QueueRow {
  position: number;
  experiment: number;
  name: string;
  priority: number;
  state: string;
  states: Record<string, number>;
  slots: number[];
  max_slots: number | null;
  max_trials: number | null;
  progress: number | null;
  added: number;
  host: string;
  owner: string;
}

/** The user's experiments in the queue of this machine, in scheduling order, and notes about the queue. `served` says whether a daemon runs the queue. */
export interface QueueRows {
  version: string;
  rows: QueueRow[];
  served: boolean;
  slots: number | null;
  notes: string[];
}

/** One decision, or an event that the search had to react to. `rank` is the place among `of` compared results. */
export interface SearchDecision {
  sequence: number;
  time: number | null;
  trial: number | null;
  number: number | null;
  bracket: number | null;
  rung: number | null;
  batches: number | null;
  metric: Number;
  rank: number | null;
  of: number | null;
  action: "created" | "copied" | "promoted" | "continued" | "paused" | "stopped" | "completed" | "failed" | "canceled" | "extended";
  text: string;
}

/** A hyperparameter of the search space. `low` and `high` are values, also for the kind "log". */
export interface Searched {
  name: string;
  kind: "int" | "double" | "log" | "categorical" | "const";
  low: Number;
  high: Number;
  values: unknown[];
}

/** The first and the last line of the part of a log that was searched: all matching lines between them are known. */
export interface SearchedPart {
  first: LogPlace;
  last: LogPlace;
}

/** A condition on a hyperparameter that all trials of a group fulfil, and how many of the others do. `text` is the condition, such as `lr >= 0.5`; `value` is the part behind the name, or the value itself if all have the same. */
export interface SharedHparam {
  name: string;
  text: string;
  value: string;
  in_group: string;
  elsewhere: string;
}

/** A checkpoint. `incomplete` names missing parts of its state, `pickled` the pickled ones; `used_by` its users. */
export interface ShownCheckpoint {
  id: string;
  trial: number;
  trial_number: number;
  experiment: number;
  attempt: number;
  batches: number;
  metric: Number;
  state: string;
  bytes: number;
  created: number;
  storage: string;
  files: CheckpointFile[];
  incomplete: string[];
  pickled: string[];
  metadata: Record<string, unknown>;
  used_by: string[];
  registered: string[];
  best: boolean;
}

/** Checkpoints, newest first. */
export interface ShownCheckpoints {
  version: string;
  rows: ShownCheckpoint[];
}

/** The store that is shown. `problem` says why it cannot be read. `copied` is the time of the copy that is shown, if this user cannot write the store and it has changed since. */
export interface StoreState {
  place: string;
  kind: "sqlite" | "postgresql";
  problem: string | null;
  copied: number | null;
}

/** Statistics of one metric of a trial, which has `count` values, of which `no_numbers` are not numbers. If no value is a number, only `count`, `no_numbers` and `last` are given. */
export interface Summary {
  count: number;
  last: unknown;
  min: Number;
  max: Number;
  mean: Number;
  nonfinite: number;
  no_numbers: number;
}

/** Everything about one trial but its curves, checkpoints and log. `alone` has the settings of a fork that trains its hyperparameters alone, `alone_note` names those that are masked. */
export interface TrialDetail {
  version: string;
  row: TrialRow;
  attempts: Attempt[];
  command: string | null;
  git_commit: string | null;
  source_checkpoint: string | null;
  status: string;
  reason: string | null;
  goal: number | null;
  rungs: number[];
  bracket: number;
  seed: number;
  assigned_hparams: Record<string, unknown>;
  alone: string[];
  alone_note: string | null;
  metrics: TrialMetric[];
  samples: string[];
  outputs: OutputFile[];
  metadata: Record<string, unknown>;
  actions: ActionState[];
  commands: Record<string, string>;
  python: Record<string, string>;
}

/** A metric that a trial has reported. `numeric` is false if none of its values is a number. */
export interface TrialMetric {
  key: string;
  group: string;
  name: string;
  numeric: boolean;
  summary: Summary;
}

/** A trial. `metrics` has the statistics of the metrics that were asked for, null while they are computed. */
export interface TrialRow {
  id: number;
  experiment: number;
  experiment_name: string;
  number: number;
  state: string;
  pending: "pause" | "activate" | "cancel" | "kill" | null;
  labels: string[];
  archived: boolean;
  owner: string;
  host: string | null;
  hparams: Record<string, unknown>;
  differing_hparams: string[];
  batches: number;
  progress: number | null;
  created: number;
  started: number | null;
  ended: number | null;
  restarts: number;
  attempts: number;
  reason: string | null;
  metric: string | null;
  smaller_is_better: boolean;
  best: Number;
  latest: Number;
  checkpoints: number;
  checkpoint_bytes: number;
  metrics: Record<string, Summary | null>;
}

/** All trials, newest first. `pending_summaries` trials still lack statistics of the metrics that were asked for. */
export interface TrialRows {
  version: string;
  rows: TrialRow[];
  pending_summaries: number;
}

/** The result of comparing the files of a checkpoint with the hashes that were stored with them. Without hashes, as in checkpoints that a program saves with the Core API, only names and sizes are compared. `found` is false if nothing could be compared, because the files do not exist on this machine or were deleted. */
export interface Verified {
  ok: boolean;
  found: boolean;
  hashed: boolean;
  problems: string[];
  files: number;
  bytes: number;
}

/** An empty object: the comparison has no options, but a JSON body is required, which other sites cannot send. */
export interface VerifyRequest {
}
