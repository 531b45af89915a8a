// A canvas that fits its place: sharp on every screen, drawn again when size, theme or content change.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { cssColour, useTheme } from "./palette.tsx";

export interface Pen {
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
}

export interface Point {
  x: number;
  y: number;
}

export function Canvas({ height, label, draw, deps, canvas, grabs, onMove, onLeave, onClick, onDown, onUp, onCancel }: {
  height: number; label: string; draw: (pen: Pen) => void; deps: readonly unknown[]; canvas?: (element: HTMLCanvasElement | null) => void;
  onMove?: (point: Point, width: number) => void; onLeave?: () => void; onClick?: (point: Point, width: number) => void;
  onDown?: (point: Point, width: number) => void; onUp?: (point: Point, width: number) => void; onCancel?: () => void;
  /** Whether a finger that touches this point draws; elsewhere it scrolls the page. */
  grabs?: (point: Point, width: number) => boolean;
}) {
  const element = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const theme = useTheme();
  useEffect(() => {
    const parent = element.current?.parentElement;
    if (!parent) return undefined;
    const observer = new ResizeObserver(() => setWidth(parent.clientWidth));
    observer.observe(parent);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    canvas?.(element.current);
    return () => canvas?.(null);
  }, []);
  useLayoutEffect(() => {
    const target = element.current;
    const context = target?.getContext("2d");
    if (!target || !context || width < 40) return;
    const ratio = devicePixelRatio || 1;
    target.width = Math.round(width * ratio);
    target.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = `11px ${cssColour("--font")}`;
    draw({ context, width, height });
  }, [width, height, theme, ...deps]);
  const grabbing = useRef(grabs);
  grabbing.current = grabs;
  useEffect(() => {
    const target = element.current;
    const touch = (event: TouchEvent): void => {
      const [finger] = event.touches;
      if (!target || !finger || event.touches.length > 1) return;
      const box = target.getBoundingClientRect();
      if (grabbing.current?.({ x: finger.clientX - box.left, y: finger.clientY - box.top }, box.width)) event.preventDefault();
    };
    target?.addEventListener("touchstart", touch, { passive: false });
    return () => target?.removeEventListener("touchstart", touch);
  }, []);
  const at = (event: PointerEvent | MouseEvent): Point => ({ x: event.offsetX, y: event.offsetY });
  return (
    <canvas ref={element} role="img" aria-label={label} style={{ width: "100%", height: `${height}px`, touchAction: onDown ? "pan-x pan-y" : "auto" }}
      onPointerMove={(event) => onMove?.(at(event), width)} onPointerLeave={onLeave}
      onPointerDown={(event) => {
        if (!onDown) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        onDown(at(event), width);
      }}
      onPointerCancel={onCancel}
      onPointerUp={(event) => onUp?.(at(event), width)} onClick={(event) => onClick?.(at(event), width)} />
  );
}
