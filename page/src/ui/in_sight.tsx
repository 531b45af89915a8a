// Content that exists only while it is in sight: a thousand charts cost as much as those on the screen.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export function InSight({ height, children }: { height: number; children: () => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => setSeen(entries[entries.length - 1]?.isIntersecting ?? false), { rootMargin: "300px" });
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return <div ref={box} style={{ minHeight: `${height}px` }}>{seen && children()}</div>;
}
