// Requests actions from the server, and shows their results.
import { ApiError, post } from "../api.ts";
import { plural } from "../format.ts";
import { pollSoon } from "../live.ts";
import type { ActionResults } from "../../generated/types.ts";
import { say } from "../ui/overlay.tsx";

export interface Options {
  text?: string;
  max_trials?: number;
  slots?: number;
  config?: string[];
  from_checkpoint?: string;
  create_model?: boolean;
}

export const ACTION_NAMES: Record<string, string> = {
  pause: "Pause", activate: "Activate", cancel: "Cancel", kill: "Kill", kill_trial: "Kill trial", continue: "Continue", extend: "Extend",
  fork: "Fork", archive: "Archive", unarchive: "Unarchive", label: "Add a label", unlabel: "Remove a label", rename: "Rename",
  describe: "Describe", note: "Edit notes", register: "Register as model version", delete: "Delete", delete_checkpoint: "Delete checkpoint",
};

export interface Outcome {
  results: ActionResults["results"];
  /** Why the whole request was rejected. */
  error: ApiError | null;
}

export function rejected(outcome: Outcome): ActionResults["results"] {
  return outcome.results.filter((result) => !result.ok);
}

/** Carries out an action, and says so if nothing was rejected. */
export async function run(action: string, ids: readonly (number | string)[], options: Options = {}): Promise<Outcome> {
  try {
    const { results } = await post<ActionResults>("/api/actions", { action, ids, options });
    const outcome = { results, error: null };
    if (rejected(outcome).length === 0) {
      const said = results.length === 1 ? results[0]!.message : "";
      say(said || `${ACTION_NAMES[action] ?? action}: done for ${plural(results.length, "item")}.`, "good");
    }
    pollSoon();
    return outcome;
  } catch (error) {
    return { results: [], error: error instanceof ApiError ? error : new ApiError(0, String(error), null) };
  }
}

/** Shows why an action without a dialog was rejected. */
export function sayRejected(action: string, outcome: Outcome): void {
  const name = ACTION_NAMES[action] ?? action;
  for (const result of rejected(outcome)) say(`${name} ${result.id}: ${result.message}`, "bad");
  if (outcome.error) say(`${name}: ${outcome.error.message}${outcome.error.hint ? ` ${outcome.error.hint}` : ""}`, "bad");
}
