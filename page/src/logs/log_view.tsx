// A log with filters, a live tail, and links to the moment on the curves.
import { useEffect, useRef, useState } from "preact/hooks";
import { setParams, useAddress } from "../address.ts";
import { ApiError, exported, get, supersede, withQuery } from "../api.ts";
import { formatCount, formatTime } from "../format.ts";
import { useLive } from "../live.ts";
import type { LogLine, LogLines } from "../types.ts";
import { Empty, ErrorNotice, Link } from "../ui/basics.tsx";
import { follow, LIMIT, mergeBefore, type Loaded } from "./lines.ts";
import { Pieces } from "./pieces.tsx";

const LONG = 4000;
const NOTHING: Loaded = { lines: [], older: false, newer: false };

interface Place {
  trial?: number;
  experiment?: number;
  /** Ranges of ids ("1-40,44"): limits the log of an experiment to these trials. */
  trials?: string | null;
}

export function LogView({ place, name }: { place: Place; name?: (trial: number) => string }) {
  const { params } = useAddress();
  const filters = { level: params.get("level"), rank: params.get("rank"), stream: params.get("stream"), text: params.get("find"), regex: params.get("regex") === "1" ? true : null };
  const at = params.get("at");
  const question = JSON.stringify([place, filters, at]);
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [following, setFollowing] = useState(at === null);
  const [picked, setPicked] = useState<number | null>(null);
  const [round, setRound] = useState(0);
  const live = useLive();
  const frame = useRef<HTMLDivElement>(null);
  /** Identifies the current filters: answers to requests with earlier filters are ignored. */
  const present = useRef({});
  const busy = useRef(false);
  /** The version of the store that the lines show. */
  const shown = useRef("");
  const opened = useRef<string | null>(null);
  // With the version of the store known before the lines are asked for, nothing that is written later is missed.
  const ready = exported !== null || live.store !== null || live.problem !== null;

  const path = (extra: Record<string, string | number | null>): string => withQuery("/api/logs", { ...place, ...filters, ...extra, limit: LIMIT });
  const load = (request: (change: (merge: (before: Loaded) => Loaded) => void) => Promise<void>): Promise<void> => {
    const mine = present.current;
    return request((merge) => {
      if (present.current !== mine) return;
      setError(null);
      setLoaded((before) => merge(before ?? NOTHING));
    }).catch((problem: unknown) => {
      if (present.current !== mine) return;
      shown.current = ""; // Requested again when the store changes, or the server answers again.
      setError(problem instanceof ApiError ? problem : new ApiError(0, String(problem), null));
    });
  };
  /** Loads the end of the log with one request at a time; lines that are written meanwhile are requested afterwards. */
  const loadNewest = (request: Parameters<typeof load>[0]): void => {
    const mine = present.current;
    busy.current = true;
    shown.current = live.version;
    void load(request).then(() => {
      if (present.current !== mine) return;
      busy.current = false;
      if (shown.current !== "") setRound((count) => count + 1);
    });
  };
  const open = (): void => loadNewest(async (change) => {
    const { lines, older } = await get<LogLines>(path({ around_time: at }));
    change(() => ({ lines, older, newer: false }));
  });
  useEffect(() => {
    if (!ready) return;
    const asked = path({ around_time: at });
    supersede(opened.current, asked);
    opened.current = asked;
    present.current = {};
    setLoaded(null);
    setFollowing(at === null);
    open();
  }, [question, ready]);
  useEffect(() => {
    if (busy.current) return;
    if (!loaded) return void (error && open());
    if (!following || at !== null || (live.version === shown.current && !loaded.newer)) return;
    loadNewest((change) => follow(loaded.lines[loaded.lines.length - 1]?.id ?? null, (after) => get<LogLines>(path({ after })), change));
  }, [live.version, live.problem, following, loaded, round]);
  useEffect(() => {
    const element = frame.current;
    if (!element || !loaded) return;
    if (at !== null) element.querySelector(".here")?.scrollIntoView({ block: "center" });
    else if (following) element.scrollTop = element.scrollHeight;
  }, [loaded]);

  const older = (): void => {
    const top = loaded?.lines[0];
    if (top) void load(async (change) => {
      const answer = await get<LogLines>(path({ before: top.id }));
      change((before) => mergeBefore(before, answer));
    });
  };
  const scrolled = (): void => {
    const element = frame.current;
    if (element) setFollowing(element.scrollHeight - element.scrollTop - element.clientHeight < 40);
  };
  const moment = at === null ? null : Number(at);
  const here = moment === null || !loaded ? -1 : loaded.lines.reduce((best, line, index) =>
    Math.abs(line.time - moment) < Math.abs((loaded.lines[best]?.time ?? Infinity) - moment) ? index : best, 0);
  const keys = (event: KeyboardEvent): void => {
    const lines = loaded?.lines ?? [];
    const before = picked === null ? here : lines.findIndex((line) => line.id === picked);
    const next = { ArrowDown: before + 1, ArrowUp: before - 1 }[event.key];
    if (next === undefined || !lines[next]) return;
    setPicked(lines[next].id);
    frame.current?.querySelectorAll("li")[next]?.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  };
  return (
    <section class="panel">
      <LogFilters />
      {error && <ErrorNotice error={error} />}
      {!loaded ? !error && <div class="loading" role="status"><span>Loading the log …</span></div> : loaded.lines.length === 0 ? (
        <Empty title={Object.values(filters).some(Boolean) ? "No line matches" : "Nothing was printed"} />
      ) : (
        <div class="log" ref={frame} onScroll={scrolled} onKeyDown={keys} tabIndex={0} role="log" aria-label="Log" aria-live="off">
          {loaded.older && <button class="plain" onClick={older}>Older lines</button>}
          <ol>{loaded.lines.map((line, index) => <Line key={line.id} line={line} here={picked === null ? index === here : line.id === picked} onPick={(one) => setPicked(one.id)} {...(name ? { name } : {})} />)}</ol>
        </div>
      )}
      <div class="table-foot row">
        <span>{formatCount(loaded?.lines.length ?? 0)} lines</span>
        {at !== null ? <button class="plain" onClick={() => setParams({ at: null })}>To the newest lines</button> : <span>{following ? "following" : "not following: scroll to the end to follow"}</span>}
      </div>
    </section>
  );
}

function Line({ line, here, name, onPick }: { line: LogLine; here: boolean; name?: (trial: number) => string; onPick: (line: LogLine) => void }) {
  const [all, setAll] = useState(false);
  const text = all || line.text.length <= LONG ? line.text : line.text.slice(0, LONG);
  const left = line.text.length - text.length;
  return (
    <li onClick={() => onPick(line)} class={`${line.level ?? ""}${here ? " here" : ""}`}>
      <time dateTime={new Date(line.time * 1000).toISOString()} title={formatTime(line.time, true)}>{formatTime(line.time, true).slice(11)}</time>
      {here && <Link to={`/trials/${line.trial}?at=${line.time.toFixed(3)}`}>on the curves</Link>}
      {name && <span class="who">{name(line.trial)}</span>}
      {line.rank !== null && line.rank > 0 && <span class="who">rank {line.rank}</span>}
      <span class="said"><Pieces text={text} />
        {left > 0 && <button class="plain" onClick={() => setAll(true)}>{formatCount(left)} more characters</button>}
        {line.cut > 0 && <span class="quiet"> [{formatCount(line.cut)} characters were not stored]</span>}
      </span>
    </li>
  );
}

function LogFilters() {
  const { params } = useAddress();
  const [find, setFind] = useState(params.get("find") ?? "");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const value = (name: string): string => params.get(name) ?? "";
  return (
    <div class="toolbar">
      <input class="grow" type="search" data-filter aria-label="Search the log" placeholder="Search the log" value={find} onInput={(event) => {
        const text = event.currentTarget.value;
        setFind(text);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => setParams({ find: text }), 250);
      }} />
      <label class="field"><input type="checkbox" checked={value("regex") === "1"} onChange={() => setParams({ regex: value("regex") ? null : "1" })} />pattern</label>
      <label class="field">Level
        <select value={value("level")} onChange={(event) => setParams({ level: event.currentTarget.value })}>
          <option value="">all</option>{["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"].map((level) => <option key={level}>{level}</option>)}
        </select>
      </label>
      <label class="field">Stream
        <select value={value("stream")} onChange={(event) => setParams({ stream: event.currentTarget.value })}><option value="">both</option><option>stdout</option><option>stderr</option></select>
      </label>
      <label class="field">Rank<input type="number" min="0" value={value("rank")} style={{ width: "64px" }} onChange={(event) => setParams({ rank: event.currentTarget.value })} /></label>
    </div>
  );
}
