// A log with filters, a live tail, and links to the moment on the curves.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { setParams, useAddress } from "../address.ts";
import { ApiError, exported, get, supersede, withQuery } from "../api.ts";
import { formatCount, formatTime } from "../format.ts";
import { useLive } from "../live.ts";
import type { LogLine, LogLines } from "../../generated/types.ts";
import { Empty, ErrorNotice, Link } from "../ui/basics.tsx";
import { Download } from "../ui/download.tsx";
import { firstId, follow, lastId, LIMIT, mergeAfter, mergeBefore, opened, stoppedAt, type Loaded } from "./lines.ts";
import { LogFilters } from "./log_filters.tsx";
import { Pieces } from "./pieces.tsx";

const LONG = 4000;
const NOTHING: Loaded = { lines: [], older: false, newer: false, searched: null };

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
  const first = useRef<string | null>(null);
  /** Whether the marked line was scrolled to: only once, or other lines could not be looked at. */
  const centred = useRef(false);
  /** The distance from the end of the log to what is in sight, which stays there while older lines are added above it. */
  const below = useRef<number | null>(null);
  const [continuing, setContinuing] = useState(false);
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
    const answer = await get<LogLines>(path({ around_time: at }));
    change(() => opened(answer, at !== null && answer.newer));
  });
  useEffect(() => {
    if (!ready) return;
    const asked = path({ around_time: at });
    supersede(first.current, asked);
    first.current = asked;
    present.current = {};
    centred.current = false;
    setContinuing(false);
    setPicked(null);
    setLoaded(null);
    setFollowing(at === null);
    open();
  }, [question, ready]);
  useEffect(() => {
    if (busy.current) return;
    if (!loaded) return void (error && open());
    if (!following || (at !== null && loaded.newer) || (live.version === shown.current && !loaded.newer)) return;
    loadNewest((change) => follow(lastId(loaded), (after) => get<LogLines>(path({ after })), change));
  }, [live.version, live.problem, following, loaded, round]);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element || !loaded) return;
    if (below.current !== null) element.scrollTop = element.scrollHeight - below.current;
    else if (at !== null && !centred.current) element.querySelector(".here")?.scrollIntoView({ block: "center" });
    else if (following) element.scrollTop = element.scrollHeight;
    below.current = null;
    centred.current = true;
    if (!loaded.newer && element.scrollHeight <= element.clientHeight) setFollowing(true); // There is nothing to scroll.
  }, [loaded]);

  /** Requests lines before or after those that are loaded. */
  const more = (query: { before: number | null } | { after: number | null }, merge: typeof mergeBefore): void => {
    setContinuing(true);
    const mine = present.current;
    void load(async (change) => {
      const answer = await get<LogLines>(path(query));
      if (merge === mergeBefore && frame.current) below.current = frame.current.scrollHeight - frame.current.scrollTop;
      change((before) => merge(before, answer));
    }).then(() => present.current === mine && setContinuing(false));
  };
  const older = (): void => void (loaded && more({ before: firstId(loaded) }, mergeBefore));
  const newer = (): void => void (loaded && more({ after: lastId(loaded) }, mergeAfter));
  const scrolled = (): void => {
    const element = frame.current;
    if (element) setFollowing(element.scrollHeight - element.scrollTop - element.clientHeight < 40);
  };
  const moment = at === null ? null : Number(at);
  const here = moment === null || !loaded ? -1 : loaded.lines.reduce((best, line, index) =>
    Math.abs(line.time - moment) < Math.abs((loaded.lines[best]?.time ?? Infinity) - moment) ? index : best, 0);
  const keys = (event: KeyboardEvent): void => {
    const lines = loaded?.lines ?? [];
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const before = picked === null ? here : lines.findIndex((line) => line.id === picked);
    const items = [...frame.current?.querySelectorAll("li") ?? []];
    // Without a line to start from, it is the last one while the log is followed, else the first one in sight.
    const top = frame.current?.getBoundingClientRect().top ?? 0;
    const start = following ? lines.length - 1 : items.findIndex((item) => item.getBoundingClientRect().top >= top);
    const next = before < 0 ? start : before + (event.key === "ArrowDown" ? 1 : -1);
    if (!lines[next]) return;
    setPicked(lines[next].id);
    items[next]?.scrollIntoView({ block: "nearest" });
    event.preventDefault();
  };
  const stopped = loaded && stoppedAt(loaded);
  const continued = stopped !== null && <>
    <span>Searched back to {formatTime(stopped, true)}.</span> <button disabled={continuing} onClick={older}>{continuing ? "Searching …" : "Continue"}</button>
  </>;
  return (
    <section class="panel">
      <LogFilters />
      {error && <ErrorNotice error={error} />}
      {!loaded ? !error && <div class="loading" role="status"><span>Loading the log …</span></div> : loaded.lines.length === 0 ? (
        <Empty title={stopped !== null ? "No line matches so far" : Object.values(filters).some(Boolean) ? "No line matches" : "Nothing was printed"}>{continued && <div class="row">{continued}</div>}</Empty>
      ) : (
        <div class="log" ref={frame} onScroll={scrolled} onKeyDown={keys} tabIndex={0} role="log" aria-label="Log" aria-live="off">
          {continued ? <div class="log-more">{continued}</div> : loaded.older && <div class="log-more"><button class="plain" disabled={continuing} onClick={older}>Older lines</button></div>}
          <ol>{loaded.lines.map((line, index) => <Line key={line.id} line={line} here={picked === null ? index === here : line.id === picked} onPick={(one) => setPicked(one.id)} {...(name ? { name } : {})} />)}</ol>
          {at !== null && loaded.newer && <div class="log-more"><button class="plain" disabled={continuing} onClick={newer}>Newer lines</button></div>}
        </div>
      )}
      <div class="table-foot row">
        <span>{formatCount(loaded?.lines.length ?? 0)} lines</span>
        {at !== null && <button class="plain" onClick={() => setParams({ at: null })}>To the newest lines</button>}
        {!loaded?.newer && <span>{following ? "following" : "not following: scroll to the end to follow"}</span>}
        <span class="end"><Download path={place.trial === undefined ? `/api/experiments/${place.experiment}/log` : `/api/trials/${place.trial}/log`} label="Download the log" title="All lines, without the filters" /></span>
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
        {line.cut > 0 && <span class="quiet"> [{formatCount(line.cut)} more characters are in the download]</span>}
      </span>
    </li>
  );
}
