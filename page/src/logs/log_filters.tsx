// The filters of a log, kept in the address.
import { useEffect, useRef, useState } from "preact/hooks";
import { setParams, useAddress } from "../address.ts";

export function LogFilters() {
  const { params } = useAddress();
  const wanted = params.get("find") ?? "";
  const [find, setFind] = useState(wanted);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  /** What the address has because of typing here: anything else came from a link or from Back. */
  const sent = useRef(wanted);
  useEffect(() => {
    if (wanted === sent.current) return;
    clearTimeout(timer.current);
    sent.current = wanted;
    setFind(wanted);
  }, [wanted]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const value = (name: string): string => params.get(name) ?? "";
  return (
    <div class="toolbar">
      <input class="grow" type="search" data-filter aria-label="Search the log" placeholder="Search the log" value={find} onInput={(event) => {
        const text = event.currentTarget.value;
        setFind(text);
        clearTimeout(timer.current);
        timer.current = setTimeout(() => {
          sent.current = text;
          setParams({ find: text });
        }, 250);
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
