// Curves of one metric of any trials: the same component on every page.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { withQuery } from "../api.ts";
import { formatCount, formatNumber, plural, shorten } from "../format.ts";
import { useAnswer } from "../live.ts";
import type { Curve, Curves } from "../../generated/types.ts";
import { Empty, ErrorNotice, Link } from "../ui/basics.tsx";
import { useKept } from "../ui/in_sight.tsx";
import { fileName, savePng, saveText, type LegendEntry } from "./files.ts";
import { colourIndex, cssColour, dashesOf, LineSwatch } from "./palette.tsx";
import { Plot, type AttemptMark } from "./plot.tsx";
import { aboveZero, curveName, drawnText, extremes, shifted, toCsv, toSeries, withinCurves, xRange, yRange, zoomed } from "./plot_data.ts";

export interface CurveView {
  axis: string;
  log: boolean;
  xLog: boolean;
  smoothing: number;
  full: boolean;
  zoom: [number, number] | null;
}

export interface CurvesProps {
  trials: readonly number[];
  metric: string;
  view: CurveView;
  onZoom: (range: [number, number] | null) => void;
  name: (trial: number) => string;
  height?: number;
  /** The text of the mark at which an attempt begins; without it attempts are not marked. */
  attemptText?: (number: number) => string;
  archived?: boolean;
  /** A moment to mark: where it is on the axis. */
  moment?: AttemptMark | null;
  highlighted?: number | null;
  /** Another route that returns curves, such as the profile of a trial. */
  path?: string;
  title?: string;
  compact?: boolean;
  /** In a sandboxed frame: there are no other views to link to, and files cannot be saved. */
  alone?: boolean;
  onPick?: (trial: number, x: number) => void;
}

/** A legend of more curves is closed until somebody opens it. */
const OPEN_LEGEND = 14;
const POINTS = 1000;
/** Many curves lie on top of each other: fewer points of each keep the chart quick, and zooming asks for more. */
const ALL_POINTS = 200_000;

function curvesPath(props: CurvesProps): string | null {
  if (props.trials.length === 0 || !props.metric) return null;
  const range = { from: props.view.zoom?.[0], to: props.view.zoom?.[1], points: props.compact ? 400 : Math.max(200, Math.min(POINTS, Math.floor(ALL_POINTS / props.trials.length))) };
  if (props.path) return withQuery(props.path, { key: props.metric, ...range });
  return withQuery("/api/curves", {
    trials: props.trials.join(","), key: props.metric, axis: props.view.axis, ...range, archived: props.archived ? true : null,
  });
}

export function CurvesChart(props: CurvesProps) {
  const answer = useAnswer<Curves>(curvesPath(props));
  const [table, setTable] = useKept("table", false);
  const canvas = useRef<HTMLCanvasElement | null>(null);
  const height = props.height ?? 380;
  const { view } = props;
  const data = answer.data;
  const drawn = useMemo(() => {
    if (!data) return null;
    const all = toSeries(data, view.smoothing);
    const positive = view.xLog ? aboveZero(all) : null;
    const { x, series } = positive ?? all;
    return { x, series, xLog: positive !== null, cut: all.x.length > x.length, y: yRange(x, series, view.log, view.full) };
  }, [data, view.smoothing, view.log, view.xLog, view.full]);
  const title = props.title ?? props.metric;
  const marked = useMemo((): AttemptMark[] => {
    const { attemptText, moment } = props;
    const attempts = attemptText ? data?.attempts.map(({ number, x }) => ({ x, label: `attempt ${number}`, text: attemptText(number) })) : [];
    return [...(attempts ?? []), ...(moment ? [moment] : [])];
  }, [data, props.moment, props.attemptText]);
  const dashes = useMemo(() => dashesOf(props.trials), [props.trials.join(",")]);
  const overwritten = data?.curves.reduce((sum, curve) => sum + (curve.attempt === null ? 0 : curve.points), 0) ?? 0;
  const marks = data?.curves.reduce((sum, curve) => sum + curve.marks.reduce((all, mark) => all + mark.count, 0), 0) ?? 0;
  useEffect(() => () => void (canvas.current = null), []);

  if (answer.error && !data) return <ErrorNotice error={answer.error} again={answer.reload} />;
  if (props.trials.length === 0) return <Empty title="No trials to draw" />;
  if (!data || !drawn) return <div class="loading" style={{ height: `${height}px` }} role="status"><span>Loading the curves …</span></div>;
  const shownX = xRange(view.zoom, drawn.x, drawn.xLog);
  const valid = data.curves.filter((curve) => curve.attempt === null);
  const failed = valid.filter((curve) => curve.failed).length;
  // A trial that has no points here cannot be highlighted: the others are then drawn as usual.
  const legend = (): LegendEntry[] => (valid.length > 1 ? valid : []).map(({ trial }) => ({ name: shorten(props.name(trial), 40), colour: cssColour(`--trial-${colourIndex(trial)}`), dashes: dashes(trial) }));
  const highlighted = valid.some((curve) => curve.trial === props.highlighted && curve.points > 0) ? props.highlighted! : null;
  return (
    <figure class="chart" aria-label={`Curves of ${title}`}>
      {answer.error && <ErrorNotice error={answer.error} again={answer.reload} />}
      {data.x.length === 0 && marks === 0
        ? <div style={{ height: `${height}px` }}><Empty title="No points yet"><p>{data.note ?? "Nothing has been reported for this metric."}</p></Empty></div>
        : <Plot x={drawn.x} series={drawn.series} dashes={dashes} xRange={shownX} yRange={[drawn.y.low, drawn.y.high]} outliers={drawn.y.outliers} axis={data.axis} log={view.log} xLog={drawn.xLog}
            height={height} attempts={marked} name={props.name} label={`Curves of ${title} of ${plural(valid.length, "trial")}`} highlighted={highlighted}
            onZoom={props.onZoom} {...(props.onPick ? { onPick: props.onPick } : {})} canvas={(element) => void (canvas.current = element)} />}
      <figcaption class="chart-foot">
        <span>{drawnText(data)}</span>
        {marks > 0 && <span class="badge bad">{plural(marks, "value")} not finite, marked</span>}
        {drawn.y.outliers.length > 0 && <span>{plural(drawn.y.outliers.length, "outlier")} marked ▲ at the edge</span>}
        {overwritten > 0 && <span>{plural(overwritten, "overwritten point")}, dashed</span>}
        {failed > 0 && <span>{formatCount(failed)} of {plural(valid.length, "trial")} failed, ended by ✕</span>}
        {drawn.cut && <span>what was reported at 0 has no place on the log axis</span>}
        {props.highlighted != null && highlighted === null && <span>trial {props.highlighted} has no points here</span>}
        {data.note && <span>{data.note}</span>}
        <span class="chart-files">
          <ZoomButtons range={shownX} log={drawn.xLog} zoom={view.zoom !== null} onZoom={(range) => props.onZoom(range && withinCurves(range, valid))} />
          {!props.alone && <button class="plain" onClick={() => canvas.current && savePng(canvas.current, title, legend())}>PNG</button>}
          {!props.alone && <button class="plain" onClick={() => saveText(toCsv(data, props.name), fileName(title, "csv"))}>CSV</button>}
          <button class="plain" aria-expanded={table} onClick={() => setTable(!table)}>Table</button>
        </span>
      </figcaption>
      {!props.compact && valid.length > 1 && <Legend curves={valid} dashes={dashes} name={props.name} alone={props.alone} />}
      {table && <CurveTable data={data} name={props.name} alone={props.alone} />}
    </figure>
  );
}

function TrialLink({ trial, alone, children }: { trial: number; alone: boolean | undefined; children: ComponentChildren }) {
  return alone ? <>{children}</> : <Link to={`/trials/${trial}`}>{children}</Link>;
}

/** Zooms and moves without a mouse or keys, for example on a phone. The buttons to the right stay in place while one clicks. */
function ZoomButtons({ range, log, zoom, onZoom }: { range: [number, number]; log: boolean; zoom: boolean; onZoom: (range: [number, number] | null) => void }) {
  const scaled = (times: number): void => onZoom(zoomed(range, log ? Math.sqrt(range[0] * range[1]) : (range[0] + range[1]) / 2, times, log));
  return (
    <>
      {zoom && <button class="plain" title="Show all (0)" onClick={() => onZoom(null)}>Show all</button>}
      {zoom && <button class="plain" aria-label="Move left" title="Move left" onClick={() => onZoom(shifted(range, -0.5, log))}>←</button>}
      {zoom && <button class="plain" aria-label="Move right" title="Move right" onClick={() => onZoom(shifted(range, 0.5, log))}>→</button>}
      <button class="plain" aria-label="Zoom out" title="Zoom out (−)" disabled={!zoom} onClick={() => scaled(2)}>−</button>
      <button class="plain" aria-label="Zoom in" title="Zoom in (+)" onClick={() => scaled(0.5)}>+</button>
    </>
  );
}

function Legend({ curves, dashes, name, alone }: {
  curves: readonly Curve[]; dashes: (trial: number) => readonly number[]; name: (trial: number) => string; alone: boolean | undefined;
}) {
  const list = (
    <ul class="legend">{curves.map(({ trial }) => (
      <li key={trial}><TrialLink trial={trial} alone={alone}><LineSwatch trial={trial} dashes={dashes(trial)} /><span class="name">{shorten(name(trial), 40)}</span></TrialLink></li>
    ))}</ul>
  );
  return curves.length <= OPEN_LEGEND ? list : <details class="legend-of-many"><summary>Legend of {plural(curves.length, "trial")}</summary>{list}</details>;
}

/** The values of the chart as a table, for screen readers and for reading exact values. */
function CurveTable({ data, name, alone }: { data: Curves; name: (trial: number) => string; alone: boolean | undefined }) {
  return (
    <div class="chart-table scroll-x" tabIndex={0} role="region" aria-label="Values of the chart">
      <table class="sheet">
        <thead><tr><th>Trial</th><th class="right">Points</th><th class="right">First</th><th class="right">Last</th><th class="right">Least</th><th class="right">Greatest</th><th class="right">Not finite</th></tr></thead>
        <tbody>{data.curves.map((curve) => {
          const [low, high] = extremes(curve);
          const odd = curve.marks.reduce((sum, mark) => sum + mark.count, 0);
          return (
            <tr key={`${curve.trial} ${curve.attempt}`}>
              <td><TrialLink trial={curve.trial} alone={alone}><span class="name">{curveName(curve, name)}</span></TrialLink></td><td class="right">{formatCount(curve.points)}</td>
              <td class="right">{formatNumber(curve.first?.y)}</td><td class="right">{formatNumber(curve.last?.y)}</td>
              <td class="right">{formatNumber(low)}</td><td class="right">{formatNumber(high)}</td><td class="right">{odd}</td>
            </tr>
          );
        })}</tbody>
      </table>
      {data.from !== null && <p class="quiet">First and last are of the whole curve, the rest is of the part that is shown.</p>}
    </div>
  );
}
