// The numbers of trials by outcome.
import { Fragment } from "preact";
import { formatCount } from "../format.ts";
import { countStates } from "../states.ts";
import { Link } from "./basics.tsx";

/** The counts of trials from the number in each state; those that failed lead to their errors. */
export function TrialCounts({ states, failures }: { states: Readonly<Record<string, number>>; failures: string }) {
  const counts = countStates(states);
  const parts = [
    counts.completed > 0 && `${formatCount(counts.completed)} completed`,
    counts.stopped > 0 && `${formatCount(counts.stopped)} stopped early`,
    counts.running > 0 && `${formatCount(counts.running)} running`,
    counts.failed > 0 ? <Link to={failures}><span class="badge bad">{formatCount(counts.failed)} failed</span></Link> : "none failed",
    counts.others > 0 && `${formatCount(counts.others)} waiting, paused or canceled`,
  ].filter((part) => part !== false);
  return <span>{parts.map((part, at) => <Fragment key={at}>{at > 0 && ", "}{part}</Fragment>)}</span>;
}
