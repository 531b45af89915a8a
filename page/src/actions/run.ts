// Requests actions from the server, and shows their results.
import { ApiError, post } from "../api.ts";
import { plural } from "../format.ts";
import { pollSoon } from "../live.ts";
import type { ActionResults } from "../types.ts";
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

/** Carries out an action and shows its result. Returns the results, or null if the whole request was rejected. */
export async function run(action: string, ids: readonly (number | string)[], options: Options = {}): Promise<ActionResults["results"] | null> {
  const name = ACTION_NAMES[action] ?? action;
  try {
    const { results } = await post<ActionResults>("/api/actions", { action, ids, options });
    const bad = results.filter((result) => !result.ok);
    if (bad.length === 0) {
      const said = results.length === 1 ? results[0]!.message : "";
      say(said || `${name}: done for ${plural(results.length, "item")}.`, "good");
    }
    for (const result of bad.slice(0, 3)) say(`${name} ${result.id}: ${result.message}`, "bad");
    if (bad.length > 3) say(`${name}: ${bad.length} of ${results.length} were rejected.`, "bad");
    pollSoon();
    return results;
  } catch (error) {
    const hint = error instanceof ApiError && error.hint ? ` ${error.hint}` : "";
    say(`${name}: ${error instanceof Error ? error.message : String(error)}${hint}`, "bad");
    return null;
  }
}
