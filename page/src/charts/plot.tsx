// One uPlot chart: lines, what is marked on them, hovering, zooming by mouse and keys.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { formatDuration, formatNumber, formatTime } from "../format.ts";
import { cssColour, colourIndex, LineSwatch, trialColours, useTheme } from "./palette.tsx";
import { drawMarks } from "./marks.ts";
import { curveName, nearest, zoomed, type Outlier, type Series } from "./plot_data.ts";

/** A place on the axis that is marked by a line: the beginning of an attempt, or the moment of a log line. */
export interface AttemptMark {
  x: number;
  label: string;
  /** The text that the tip of the chart shows there. */
  text?: string;
}

export interface PlotProps {
  x: number[];
  series: Series[];
  /** The dashes of the line of a trial. */
  dashes: (trial: number) => readonly number[];
  xRange: [number, number];
  yRange: [number, number];
  outliers: Outlier[];
  axis: string;
  log: boolean;
  xLog: boolean;
  height: number;
  attempts: readonly AttemptMark[];
  name: (trial: number) => string;
  label: string;
  highlighted: number | null;
  onZoom: (range: [number, number] | null) => void;
  onPick?: (trial: number, x: number) => void;
  canvas?: (element: HTMLCanvasElement | null) => void;
}

export interface Tip {
  left: number;
  top: number;
  series: number;
  x: number;
  y: number | null;
  /** The axis along which arrow keys moved to this point; null for a tip of the pointer, which ends when the pointer leaves. */
  keyAxis: string | null;
}

type Pointer = { left: number; top: number };

/** Where uPlot puts a cursor that is not on the chart. */
const OUTSIDE: Pointer = { left: -10, top: -10 };

/** A mark shows its text when the pointer is at most this many pixels away. */
const NEAR = 8;

export function axisText(axis: string, x: number): string {
  return axis === "time" ? (x > 1e8 ? formatTime(x, true) : formatDuration(x)) : `${axis === "epochs" ? "epoch" : "batch"} ${formatNumber(x)}`;
}

/** A time on the axis; short ones with all their digits, because neighbours on the axis must differ. */
function tickTime(tick: number): string {
  return tick > 1e8 ? formatTime(tick).slice(5) : tick < 10 ? `${formatNumber(tick)} s` : formatDuration(tick);
}

function options(props: PlotProps, width: number, pointer: Pointer, onCursor: (plot: uPlot) => void): uPlot.Options {
  const ink = cssColour("--ink-3");
  const line = cssColour("--line");
  const colours = trialColours();
  const many = props.series.length > 40;
  const font = `11px ${cssColour("--font")}`;
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1, size: 4 } };
  const smooth = props.series.some((one) => one.smooth);
  const stroke = (trial: number): string => colours[colourIndex(trial)]!;
  const lines = props.series.flatMap((one): uPlot.Series[] => {
    const dim = props.highlighted !== null && props.highlighted !== one.trial;
    const old = one.curve.attempt !== null;
    const alpha = dim ? 0.15 : old ? 0.7 : many ? 0.6 : 1;
    const points = { show: one.curve.drawn <= (props.series.length <= 12 ? 60 : 1), size: 5, fill: stroke(one.trial), width: 0 };
    const dash = old ? [5, 4] : props.dashes(one.trial);
    const main: uPlot.Series = { stroke: stroke(one.trial), width: props.highlighted === one.trial ? 2.5 : many ? 1 : 1.6, alpha, points, spanGaps: false, ...(dash.length ? { dash: [...dash] } : {}) };
    return smooth ? [{ ...main, width: 1, alpha: alpha * 0.28, points: { show: false } }, main] : [main];
  });
  return {
    width, height: props.height, padding: [12, 14, 0, 0], legend: { show: false },
    scales: {
      x: { time: false, distr: props.xLog ? 3 : 1, range: () => props.xRange },
      y: { distr: props.log ? 3 : 1, range: () => props.yRange },
    },
    axes: [
      { ...axis, size: 34, space: 70, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : props.axis === "time" ? tickTime(tick) : formatNumber(tick))) },
      { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatNumber(tick))) },
    ],
    series: [{}, ...lines],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false, ...pointer },
    hooks: {
      draw: [(plot) => drawMarks(plot, props, stroke)],
      setCursor: [onCursor],
      setSelect: [(plot) => {
        if (plot.select.width < 6) return;
        const low = plot.posToVal(plot.select.left, "x");
        const high = plot.posToVal(plot.select.left + plot.select.width, "x");
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        props.onZoom([low, high]);
      }],
    },
  };
}

/** The curve nearest to the pointer. A curve without a value at this x is looked up nearby, as steps may differ. */
function tipAt(plot: uPlot, props: PlotProps): Tip | null {
  const { left, top } = plot.cursor;
  if (left === undefined || top === undefined || left < 0 || top < 0 || props.x.length === 0) return null;
  const at = nearest(props.x, plot.posToVal(left, "x"));
  const reach = Math.max(3, Math.floor(props.x.length / 40));
  let best: Tip | null = null;
  let least = Infinity;
  props.series.forEach((one, index) => {
    const values = one.smooth ?? one.values;
    for (let by = 0; by <= reach; by++) {
      const place = values[at - by] != null ? at - by : values[at + by] != null ? at + by : -1;
      if (place < 0) continue;
      const value = values[place]!;
      const y = plot.valToPos(Math.min(props.yRange[1], Math.max(props.yRange[0], value)), "y");
      const x = plot.valToPos(props.x[place]!, "x");
      const distance = Math.hypot((x - left) / 2, y - top);
      if (distance < least) {
        least = distance;
        best = { left: x, top: y, series: index, x: props.x[place]!, y: one.values[place] ?? value, keyAxis: null };
      }
      return;
    }
  });
  return best;
}

/** The tip at a point that arrow keys moved to; null if that curve has no value there. */
function tipOn(plot: uPlot, props: PlotProps, series: number, at: number): Tip | null {
  const x = props.x[at];
  const y = props.series[series]?.values[at];
  return x === undefined || y == null ? null : { left: plot.valToPos(x, "x"), top: plot.valToPos(y, "y"), series, x, y, keyAxis: props.axis };
}

export function Plot(props: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [width, setWidth] = useState(0);
  const [tip, setTip] = useState<Tip | null>(null);
  const theme = useTheme();
  const latest = useRef(props);
  latest.current = props;
  const pointer = useRef<Pointer>(OUTSIDE);

  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(Math.floor(box.current?.clientWidth ?? 0)));
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (!box.current || width < 40) return undefined;
    const data = [props.x, ...props.series.flatMap((one) => (one.smooth ? [one.values, one.smooth] : [one.values]))];
    const follow = (chart: uPlot): void => setTip((tip) => {
      if (chart.cursor.left! >= 0) return tipAt(chart, props);
      return tip?.keyAxis === props.axis ? tipOn(chart, props, tip.series, nearest(props.x, tip.x)) : null;
    });
    // New points may arrive while the user reads the chart: the new chart gets the pointer and the tip of the old one.
    const chart = new uPlot(options(props, width, pointer.current, follow), data as uPlot.AlignedData, box.current);
    plot.current = chart;
    props.canvas?.(chart.ctx.canvas);
    return () => {
      pointer.current = { left: chart.cursor.left ?? OUTSIDE.left, top: chart.cursor.top ?? OUTSIDE.top };
      plot.current = null;
      props.canvas?.(null);
      chart.destroy();
    };
  }, [props.x, props.series, props.xRange[0], props.xRange[1], props.yRange[0], props.yRange[1], props.log, props.xLog, props.height, props.attempts, props.highlighted, width, theme]);

  const keys = (event: KeyboardEvent): void => {
    const [low, high] = props.xRange;
    const centre = tip?.x ?? (props.xLog ? Math.sqrt(low * high) : (low + high) / 2);
    if (event.key === "+" || event.key === "=") props.onZoom(zoomed(props.xRange, centre, 0.5, props.xLog));
    else if (event.key === "-") props.onZoom(zoomed(props.xRange, centre, 2, props.xLog));
    else if (event.key === "0") props.onZoom(null);
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") step(event.key === "ArrowRight" ? 1 : -1);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") change(event.key === "ArrowUp" ? -1 : 1);
    else if (event.key === "Enter" && tip && props.onPick) props.onPick(props.series[tip.series]!.trial, tip.x);
    else return;
    event.preventDefault();
  };
  const show = (series: number, at: number): void => {
    const next = plot.current && tipOn(plot.current, props, series, at);
    if (next) setTip(next);
  };
  const leave = (): void => {
    plot.current?.setCursor(OUTSIDE);
    setTip(null);
  };
  const step = (by: number): void => {
    const series = tip?.series ?? 0;
    const values = props.series[series]?.values ?? [];
    let at = tip ? nearest(props.x, tip.x) + by : by > 0 ? 0 : values.length - 1;
    while (at >= 0 && at < values.length && values[at] == null) at += by;
    show(series, at);
  };
  const change = (by: number): void => {
    const series = ((tip?.series ?? 0) + by + props.series.length) % props.series.length;
    const values = props.series[series]?.values ?? [];
    let at = tip ? nearest(props.x, tip.x) : 0;
    while (at > 0 && values[at] == null) at--;
    show(series, at);
  };
  const hovered = tip ? props.series[tip.series] : undefined;
  const over = plot.current?.over;
  const marked = tip && props.attempts.find((mark) => mark.text && Math.abs(plot.current!.valToPos(mark.x, "x") - tip.left) < NEAR);
  return (
    <div class="plot" style={{ height: `${props.height}px` }}>
      <div ref={box} role="application" aria-roledescription="chart" tabIndex={0} aria-label={`${props.label}. Arrow keys move along the curves, plus and minus zoom, 0 shows all.${props.onPick ? " Enter chooses the point." : ""}`}
        onKeyDown={keys} onDblClick={() => props.onZoom(null)} onPointerLeave={leave} onBlur={() => setTip(null)}
        onClick={() => tip && hovered && latest.current.onPick?.(hovered.trial, tip.x)} />
      {tip && hovered && over && (
        <div class="tip" role="status" style={{ left: `${Math.min(over.offsetLeft + tip.left + 12, Math.max(0, width - 190))}px`, top: `${Math.max(0, over.offsetTop + tip.top - 44)}px` }}>
          <span class="row"><LineSwatch trial={hovered.trial} dashes={props.dashes(hovered.trial)} /><strong class="name">{curveName(hovered.curve, props.name)}</strong></span>
          <span class="number">{formatNumber(tip.y)}</span> <span class="quiet">{axisText(props.axis, tip.x)}</span>
          {marked?.text && <div>{marked.text}</div>}
        </div>
      )}
    </div>
  );
}
