// Content that exists only while it is in sight: a thousand charts cost as much as those on the screen.
import { createContext, type ComponentChildren } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";

/** What outlives the content: its states by name. */
interface Kept {
  states: Map<string, unknown>;
  /** A state has changed, and with it the height of the content. */
  changed: () => void;
}

const KeptContext = createContext<Kept | null>(null);

/** A state that a component has again when it comes back into sight. */
export function useKept<T>(name: string, initial: T): [T, (value: T) => void] {
  const kept = useContext(KeptContext);
  const [value, setValue] = useState<T>(kept?.states.has(name) ? (kept.states.get(name) as T) : initial);
  return [value, (next) => {
    if (kept) {
      kept.states.set(name, next);
      kept.changed();
    }
    setValue(next);
  }];
}

export function InSight({ height, children }: { height: number; children: () => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  /** The height that the content had when it went: the page must not move then, nor while it is loaded again. */
  const [measured, setMeasured] = useState(0);
  const kept = useMemo((): Kept => ({ states: new Map(), changed: () => setMeasured(0) }), []);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      const now = entries[entries.length - 1]?.isIntersecting ?? false;
      if (!now && box.current?.firstElementChild) setMeasured(box.current.offsetHeight);
      setSeen(now);
    }, { rootMargin: "300px" });
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return <div ref={box} style={{ minHeight: `${Math.max(height, measured)}px` }}>{seen && <KeptContext.Provider value={kept}>{children()}</KeptContext.Provider>}</div>;
}
