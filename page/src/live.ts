// Polls the store: one request a second while the tab is visible, fewer when nothing changes.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, exported, get, supersede } from "./api.ts";
import type { Changes } from "../generated/types.ts";

const FAST = 1000;
const SLOW = 5000;
const QUIET_POLLS = 30;
/** Seconds for a poll, which the server answers in milliseconds. */
const PATIENCE = 10;

export interface Live {
  version: string;
  running: number;
  store: Changes["store"] | null;
  problem: string | null;
}

let state: Live = { version: "", running: 0, store: null, problem: null };
const listeners = new Set<(live: Live) => void>();
let timer: ReturnType<typeof setTimeout> | undefined;
let quiet = 0;
let polling = false;

function publish(next: Live): void {
  const same = next.version === state.version && next.running === state.running && next.problem === state.problem
    && next.store?.problem === state.store?.problem && next.store?.place === state.store?.place
    && next.store?.copied === state.store?.copied;
  if (same) return;
  state = next;
  for (const listener of [...listeners]) listener(state);
}

async function poll(): Promise<void> {
  clearTimeout(timer);
  if (polling || document.hidden || listeners.size === 0) return;
  polling = true;
  try {
    const seen = encodeURIComponent(state.version);
    const changes = await get<Changes>(`/api/changes?seen=${seen}`, undefined, PATIENCE);
    quiet = changes.version === state.version ? quiet + 1 : 0;
    publish({ version: changes.version, running: changes.running, store: changes.store, problem: null });
  } catch (error) {
    quiet += 1;
    publish({ ...state, problem: error instanceof ApiError ? error.message : String(error) });
  } finally {
    polling = false;
  }
  timer = setTimeout(() => void poll(), quiet > QUIET_POLLS || state.problem ? SLOW : FAST);
}

/** Shows at once that a request did not reach the server; the poll finds out when it answers again. */
function lost(problem: string): void {
  if (state.problem !== null) return;
  publish({ ...state, problem });
  clearTimeout(timer);
  timer = setTimeout(() => void poll(), FAST);
}

/** Polls at once, after an action whose effect the user waits for. */
export function pollSoon(): void {
  quiet = 0;
  if (!exported) void poll();
}

export function useLive(): Live {
  const [live, setLive] = useState(state);
  useEffect(() => {
    if (exported) return undefined;
    listeners.add(setLive);
    setLive(state);
    if (listeners.size === 1) {
      document.addEventListener("visibilitychange", pollSoon);
      void poll();
    }
    return () => {
      listeners.delete(setLive);
      if (listeners.size === 0) {
        clearTimeout(timer);
        document.removeEventListener("visibilitychange", pollSoon);
      }
    };
  }, []);
  return live;
}

export interface Answer<T> {
  data: T | null;
  error: ApiError | null;
  loading: boolean;
  reload: () => void;
}

/**
 * Requests a path, and requests it again when the store has changed. The old answer stays until the new one arrives, so
 * that nothing jumps, also if the path changes to other parameters of the same route. Answers name the version of the
 * store that they show: one that is as new as the poll is not requested twice.
 */
export function useAnswer<T>(path: string | null, follow = true): Answer<T> {
  const live = useLive();
  const [round, setRound] = useState(0);
  const [answer, setAnswer] = useState<{ path: string | null; data: T | null; error: ApiError | null }>(
    { path: null, data: null, error: null });
  const asking = useRef(false);
  const shown = useRef<string | null>(null);
  const failed = useRef(false);
  const newest = useRef("");
  const asked = useRef<string | null>(null);
  const place = (path ?? "").split("?")[0];

  useEffect(() => {
    if (path === null) return undefined;
    supersede(asked.current, path);
    asked.current = path;
    const stop = new AbortController();
    const before = newest.current;
    asking.current = true;
    const done = (version: string | null): void => {
      asking.current = false;
      shown.current = version;
      const missed = newest.current !== before && before !== "";
      if (follow && missed && version !== newest.current) setRound((count) => count + 1);
    };
    get<T>(path, stop.signal).then((data) => {
      if (stop.signal.aborted) return;
      setAnswer({ path, data, error: null });
      failed.current = false;
      done((data as { version?: string } | null)?.version ?? null);
    }, (error: unknown) => {
      if (stop.signal.aborted) return;
      const known = error instanceof ApiError ? error : new ApiError(0, String(error), null);
      setAnswer((old) => ({ path, data: old.path?.split("?")[0] === place ? old.data : null, error: known }));
      failed.current = true;
      done(null);
      if (known.status === 0) lost(known.message);
    });
    return () => stop.abort();
  }, [path, round]);

  useEffect(() => {
    const first = newest.current === "";
    newest.current = live.version;
    if (!follow || asking.current || live.version === "" || live.version === shown.current) return;
    if (!first || shown.current !== null || failed.current) setRound((count) => count + 1);
  }, [live.version]);

  // What failed, or waits on a connection that may be dead, is requested again when the server answers again.
  const unreachable = useRef(false);
  useEffect(() => {
    const again = unreachable.current && live.problem === null;
    unreachable.current = live.problem !== null;
    if (again && path !== null && (failed.current || asking.current)) setRound((count) => count + 1);
  }, [live.problem]);

  const fits = answer.path !== null && path !== null && answer.path.split("?")[0] === place;
  return {
    data: fits ? answer.data : null,
    error: fits ? answer.error : null,
    loading: path !== null && answer.path !== path,
    reload: () => setRound((count) => count + 1),
  };
}
