// The answers of /api/experiments/{id}/decisions and /api/failures.

export interface Decision {
  sequence: number; time: number | null; trial: number | null; number: number | null; bracket: number | null;
  rung: number | null; batches: number | null; metric: number | string | null; rank: number | null; of: number | null;
  action: string; text: string;
}

export interface Decisions {
  method: string; problem: string | null; rungs: number[][]; decisions: Decision[];
}

export interface SharedValue {
  name: string; value: unknown; in_group: string; elsewhere: string;
}

export interface FailureGroup {
  error: string; example: string; file: string | null; line: number | null; trials: number[]; experiments: number[];
  shared: SharedValue[]; last_lines: string[]; command: string | null;
}

export interface Failures {
  groups: FailureGroup[];
}
